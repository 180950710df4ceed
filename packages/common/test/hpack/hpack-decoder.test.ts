import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BlockWriter } from "../../src/hpack/block-writer.ts";
import { HpackDecoder } from "../../src/hpack/hpack-decoder.ts";
import { HpackError } from "../../src/hpack/hpack-error.ts";
import { blockOf, decodedHeaders, dynamicTableOf } from "./decoder-probe.ts";

/** Names the form of a literal field by its first octet's flags and prefix. */
const LITERAL_INDEXED = [0x40, 6] as const;
const LITERAL = [0x00, 4] as const;

function literalBlock(
  form: typeof LITERAL_INDEXED | typeof LITERAL,
  name: string,
  value: string,
): Buffer {
  const writer = new BlockWriter();
  writer.writeInteger(form[0], form[1], 0);
  writer.writeString(name);
  writer.writeString(value);
  return writer.finish();
}

function sizeUpdate(bytes: number): Buffer {
  const writer = new BlockWriter();
  writer.writeInteger(0x20, 5, bytes);
  return writer.finish();
}

/** Two entries: `b` (index 62) and `a` (index 63). */
function decoderWithTwoEntries(options = {}): HpackDecoder {
  const decoder = new HpackDecoder(options);
  decoder.decode(literalBlock(LITERAL_INDEXED, "a", "1"));
  decoder.decode(literalBlock(LITERAL_INDEXED, "b", "2"));
  return decoder;
}

describe("HpackDecoder", () => {
  it("decodes an empty block to an empty list", () => {
    assert.deepEqual(new HpackDecoder().decode(Buffer.alloc(0)), { tooLarge: false, headers: [] });
  });

  it("keeps duplicates and order", () => {
    const decoder = decoderWithTwoEntries();
    assert.deepEqual(decodedHeaders(decoder, blockOf("be bf be 82 be")), [
      ["b", "2"],
      ["a", "1"],
      ["b", "2"],
      [":method", "GET"],
      ["b", "2"],
    ]);
  });

  it("returns every octet of a plain string as one character", () => {
    const octets = Buffer.from(Array.from({ length: 256 }, (_, octet) => octet));
    const block = Buffer.concat([blockOf("00 01 61 7f 81 01"), octets]);
    assert.deepEqual(decodedHeaders(new HpackDecoder(), block), [["a", octets.toString("latin1")]]);
  });

  it("shares no memory with the block", () => {
    const block = literalBlock(LITERAL_INDEXED, "name", "value");
    const decoder = new HpackDecoder();
    const headers = decodedHeaders(decoder, block);
    block.fill(0);
    assert.deepEqual(headers, [["name", "value"]]);
    assert.deepEqual(dynamicTableOf(decoder), [["name", "value"]]);
  });

  it("takes a name from an entry that the same field then evicts", () => {
    const decoder = new HpackDecoder({ maxTableBytes: 4096 });
    decoder.decode(sizeUpdate(64));
    decoder.decode(literalBlock(LITERAL_INDEXED, "name", "1"));
    assert.deepEqual(decodedHeaders(decoder, blockOf("7e 01 32")), [["name", "2"]]);
    assert.deepEqual(dynamicTableOf(decoder), [["name", "2"]]);
  });

  it("forgets everything when a field larger than the table is indexed", () => {
    const decoder = decoderWithTwoEntries();
    const value = "v".repeat(5000);
    assert.deepEqual(decodedHeaders(decoder, literalBlock(LITERAL_INDEXED, "c", value)), [
      ["c", value],
    ]);
    assert.deepEqual(dynamicTableOf(decoder), []);
  });

  const malformed = [
    { name: "index 0", block: "80" },
    { name: "an index beyond both tables", block: "c0" },
    { name: "a name index beyond both tables", block: "7f 01 01 61" },
    { name: "a block that ends in an index", block: "ff" },
    { name: "a block that ends behind a field's first octet", block: "40" },
    { name: "a block that ends behind a name", block: "40 01 61" },
    { name: "a block that ends within a value", block: "40 01 61 03 62 62" },
    { name: "a block that ends within a string's length", block: "40 ff" },
    { name: "a string longer than any block", block: "40 7f ff ff ff 7f 61" },
    { name: "an integer of five continuation octets", block: "ff 80 80 80 80 00" },
    { name: "an integer of ten continuation octets", block: `ff ${"ff".repeat(9)} 01` },
    { name: "an integer that never ends", block: `1f ${"80".repeat(100)}` },
    { name: "a Huffman string with wrong padding", block: "40 81 18 01 61" },
    { name: "a Huffman string with EOS", block: "40 84 ff ff ff ff 01 61" },
    { name: "a size update behind a field", block: "82 20" },
    { name: "a size update above the limit", block: "3f e2 1f 82" },
    { name: "three size updates", block: "20 20 20 82" },
    { name: "a size update that is cut off", block: "3f e1" },
  ];
  for (const { name, block } of malformed) {
    it(`rejects ${name}`, () => {
      assert.throws(() => decoderWithTwoEntries().decode(blockOf(block)), HpackError);
    });
  }

  it("accepts four octets behind an integer's prefix, also if they are zeros, and no fifth", () => {
    // Index 127 + 0: the first octet's seven ones, then nothing but zeros.
    assert.throws(() => new HpackDecoder().decode(blockOf("ff 80 80 80 00")), /index 127/);
    assert.throws(() => new HpackDecoder().decode(blockOf("ff 80 80 80 80 00")), /too long/);
  });
});

describe("HpackDecoder's table size", () => {
  it("may go down and up again in one block", () => {
    const decoder = decoderWithTwoEntries();
    assert.deepEqual(decodedHeaders(decoder, blockOf("20 3f e1 1f 82")), [[":method", "GET"]]);
    assert.deepEqual(dynamicTableOf(decoder), []);
    decoder.decode(literalBlock(LITERAL_INDEXED, "c", "3"));
    assert.deepEqual(dynamicTableOf(decoder), [["c", "3"]]);
  });

  it("may change in a block without fields", () => {
    const decoder = decoderWithTwoEntries();
    assert.deepEqual(decodedHeaders(decoder, sizeUpdate(34)), []);
    assert.deepEqual(dynamicTableOf(decoder), [["b", "2"]]);
  });

  it("begins at 4096 bytes, and grows to what we announced only when the peer says so", () => {
    const decoder = new HpackDecoder({ maxTableBytes: 8192, maxListBytes: 10_000 });
    decoder.settingsAcknowledged();
    decoder.decode(literalBlock(LITERAL_INDEXED, "a", "v".repeat(4064)));
    assert.equal(dynamicTableOf(decoder).length, 0);
    decoder.decode(sizeUpdate(8192));
    decoder.decode(literalBlock(LITERAL_INDEXED, "a", "v".repeat(4064)));
    assert.equal(dynamicTableOf(decoder).length, 1);
    assert.throws(() => decoder.decode(sizeUpdate(8193)), HpackError);
  });

  it("is 4096 bytes until the peer acknowledges that it is less", () => {
    const decoder = decoderWithTwoEntries({ maxTableBytes: 34 });
    assert.equal(dynamicTableOf(decoder).length, 2);
    decoder.decode(sizeUpdate(4096));
    decoder.settingsAcknowledged();
    assert.deepEqual(decodedHeaders(decoder, blockOf("3f 03 be")), [["b", "2"]]);
    assert.deepEqual(dynamicTableOf(decoder), [["b", "2"]]);
    assert.throws(() => decoder.decode(sizeUpdate(35)), HpackError);
  });

  it("must shrink in the first block after that acknowledgement", () => {
    for (const block of ["82", "", "3f 04 82"]) {
      const decoder = new HpackDecoder({ maxTableBytes: 34 });
      decoder.settingsAcknowledged();
      assert.throws(() => decoder.decode(blockOf(block)), HpackError, block);
    }
  });

  it("may already have shrunk before that acknowledgement", () => {
    const decoder = new HpackDecoder({ maxTableBytes: 34 });
    decoder.decode(sizeUpdate(0));
    decoder.settingsAcknowledged();
    assert.deepEqual(decodedHeaders(decoder, blockOf("82")), [[":method", "GET"]]);
  });
});

describe("HpackDecoder's list limit", () => {
  it("counts 32 bytes on top of each field's text", () => {
    const block = blockOf("82 82"); // ":method: GET" costs 7 + 3 + 32, twice.
    assert.equal(new HpackDecoder({ maxListBytes: 84 }).decode(block).tooLarge, false);
    assert.equal(new HpackDecoder({ maxListBytes: 83 }).decode(block).tooLarge, true);
  });

  it("reports a list that is too large and keeps the table in step", () => {
    const decoder = new HpackDecoder({ maxListBytes: 100 });
    const block = Buffer.concat([
      literalBlock(LITERAL_INDEXED, "before", "1"),
      literalBlock(LITERAL, "large", "v".repeat(200)),
      literalBlock(LITERAL_INDEXED, "behind", "2"),
    ]);
    assert.deepEqual(decoder.decode(block), { tooLarge: true });
    assert.deepEqual(dynamicTableOf(decoder), [
      ["behind", "2"],
      ["before", "1"],
    ]);
  });

  it("still finds what is malformed behind the limit", () => {
    const decoder = new HpackDecoder({ maxListBytes: 10 });
    assert.throws(() => decoder.decode(blockOf("82 82 80")), HpackError);
  });

  it("applies to each block anew", () => {
    const decoder = new HpackDecoder({ maxListBytes: 42 });
    assert.equal(decoder.decode(blockOf("82 82")).tooLarge, true);
    assert.equal(decoder.decode(blockOf("82")).tooLarge, false);
  });

  // Unfolded, each of these would be some 250 MB of text. The bound is a thousand times what they
  // take, and a tenth of what copying that text would.
  it("makes 64 KiB of references to one large entry cheap", () => {
    const decoder = new HpackDecoder();
    decoder.decode(literalBlock(LITERAL_INDEXED, "a", "v".repeat(4000)));
    const startedAtMs = performance.now();
    assert.deepEqual(decoder.decode(Buffer.alloc(65_536, 0xbe)), { tooLarge: true });
    assert.ok(performance.now() - startedAtMs < 2_000);
  });

  it("makes 64 KiB of literals with one large name cheap", () => {
    const decoder = new HpackDecoder();
    decoder.decode(literalBlock(LITERAL_INDEXED, "n".repeat(4000), ""));
    // Literal without indexing, name index 62 (15 + 47), empty value.
    const block = Buffer.alloc(3 * 21_845, Buffer.from([0x0f, 47, 0]));
    const startedAtMs = performance.now();
    assert.deepEqual(decoder.decode(block), { tooLarge: true });
    assert.ok(performance.now() - startedAtMs < 2_000);
  });
});
