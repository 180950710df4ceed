import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HpackError } from "../../src/hpack/hpack-error.ts";
import { decodeHuffman, huffmanBytes, writeHuffman } from "../../src/hpack/huffman.ts";

const ALL_OCTETS = Array.from({ length: 256 }, (_, octet) => String.fromCharCode(octet));

function encoded(text: string): Buffer {
  const target = Buffer.alloc(huffmanBytes(text));
  writeHuffman(text, target, 0);
  return target;
}

function decoded(bytes: Buffer): string {
  return decodeHuffman(bytes, 0, bytes.length);
}

/** Bytes from a string of "0" and "1" in which spaces do not count. */
function fromBits(bits: string): Buffer {
  const octets = bits.replaceAll(" ", "").match(/.{8}/g) ?? [];
  return Buffer.from(octets.map((octet) => Number.parseInt(octet, 2)));
}

describe("Huffman code", () => {
  it("has the codes that RFC 7541 appendix B lists, for one symbol of each length", () => {
    const listed = [
      { text: "0", code: "00000" },
      { text: " ", code: "010100" },
      { text: ":", code: "1011100" },
      { text: "&", code: "11111000" },
      { text: "!", code: "1111111000" },
      { text: "'", code: "11111111010" },
      { text: "#", code: "111111111010" },
      { text: "\0", code: "1111111111000" },
      { text: "^", code: "11111111111100" },
      { text: "<", code: "111111111111100" },
      { text: "\\", code: "1111111111111110000" },
      { text: "\x80", code: "11111111111111100110" },
      { text: "\x99", code: "111111111111111011100" },
      { text: "\x81", code: "1111111111111111010010" },
      { text: "\x01", code: "11111111111111111011000" },
      { text: "\t", code: "111111111111111111101010" },
      { text: "\xc7", code: "1111111111111111111101100" },
      { text: "\xc0", code: "11111111111111111111100000" },
      { text: "\xcb", code: "111111111111111111111011110" },
      { text: "\x7f", code: "1111111111111111111111111100" },
      { text: "\x16", code: "111111111111111111111111111110" },
    ];
    for (const { text, code } of listed) {
      const padded = code.padEnd(Math.ceil(code.length / 8) * 8, "1");
      assert.deepEqual(encoded(text), fromBits(padded), JSON.stringify(text));
    }
  });

  it("brings back every octet, alone and next to every other", () => {
    for (const first of ALL_OCTETS) {
      assert.equal(decoded(encoded(first)), first);
      for (const second of ALL_OCTETS) {
        const text = first + second;
        assert.equal(decoded(encoded(text)), text);
      }
    }
  });

  it("brings back text longer than the decoder's own buffer", () => {
    const text = ALL_OCTETS.join("").repeat(100);
    assert.equal(decoded(encoded(text)), text);
  });

  it("decodes a part of a buffer and leaves the rest alone", () => {
    const around = Buffer.concat([
      Buffer.alloc(3, 0xff),
      encoded("www.example.com"),
      Buffer.alloc(9),
    ]);
    assert.equal(decodeHuffman(around, 3, around.length - 9), "www.example.com");
  });

  it("decodes nothing to nothing", () => {
    assert.equal(decoded(Buffer.alloc(0)), "");
  });

  it("refuses to encode what is not latin1", () => {
    assert.throws(() => huffmanBytes("price: €"), RangeError);
  });
});

describe("Huffman padding", () => {
  // "0" is 00000, "&" is 11111000, "a" is 00011.
  const accepted = [
    { name: "no padding", bits: "11111000", text: "&" },
    { name: "three ones", bits: "00000 111", text: "0" },
    {
      name: "seven ones",
      bits: "11111000 1111111000 11111000 1111111000 00000 1111111",
      text: "&!&!0",
    },
  ];
  for (const { name, bits, text } of accepted) {
    it(`may be ${name}`, () => {
      assert.equal(decoded(fromBits(bits)), text);
    });
  }

  const rejected = [
    { name: "zeros", bits: "00011 000" },
    { name: "ones that end in a zero", bits: "00011 110" },
    { name: "eight ones", bits: "11111000 11111111" },
    { name: "eleven ones", bits: "00011 11111111111" },
    { name: "only ones", bits: "11111111" },
    { name: "the beginning of a longer code", bits: "11111000 11111110" },
    { name: "29 ones", bits: "000111 1111111111 1111111111 1111111111 1111" },
  ];
  for (const { name, bits } of rejected) {
    it(`may not be ${name}`, () => {
      assert.throws(() => decoded(fromBits(bits)), HpackError);
    });
  }
});

describe("EOS in a Huffman string", () => {
  const eos = "1".repeat(30);
  const strings = [
    { name: "at the end", bits: `00000 00000 ${eos}` },
    { name: "before padding", bits: `${eos} 11` },
    { name: "before more text", bits: `${eos} 00000 00000` },
    { name: "twice", bits: `${eos} ${eos} 1111` },
  ];
  for (const { name, bits } of strings) {
    it(`is an error ${name}`, () => {
      assert.throws(() => decoded(fromBits(bits)), /EOS/);
    });
  }
});
