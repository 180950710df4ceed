import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { constants, createDeflate, createInflate, deflateSync } from "node:zlib";
import { DICTIONARY } from "../../src/spdy/dictionary.ts";
import { HeaderCompressor, HeaderDecompressor } from "../../src/spdy/header-block.ts";

// The oracle is zlib as one stream over all blocks, which is how every other SPDY library does it.

const HEADERS = [
  { streamtype: "error", port: "8080", requestid: "0" },
  { streamtype: "data", port: "8080", requestid: "0" },
  {},
  { long: "x".repeat(40_000), "with-nul": "a\0b" },
  { streamtype: "data", port: "8080", requestid: "1", other: "ü" },
];

describe("SPDY header blocks", () => {
  it("begin with the dictionary of SPDY/3, by its Adler-32", () => {
    let a = 1;
    let b = 0;
    for (const byte of DICTIONARY) {
      a = (a + byte) % 65_521;
      b = (b + a) % 65_521;
    }
    assert.equal((b * 65_536 + a).toString(16), "e3c6a7c2");
  });

  it("are read by one inflater over all of them", async () => {
    const compressor = new HeaderCompressor();
    const decompressor = new HeaderDecompressor();
    const inflate = createInflate({ dictionary: DICTIONARY });
    const plain: Buffer[] = [];
    inflate.on("data", (piece: Buffer) => plain.push(piece));
    for (const headers of HEADERS) {
      const block = compressor.compress(headers);
      assert.deepEqual(decompressor.decompress(block), headers);
      inflate.write(block);
    }
    inflate.flush();
    const wanted = HEADERS.map(plainBlock);
    while (Buffer.concat(plain).length < Buffer.concat(wanted).length) await once(inflate, "data");
    assert.deepEqual(Buffer.concat(plain), Buffer.concat(wanted));
    inflate.destroy();
  });

  it("are read from one deflater over all of them", async () => {
    const deflate = createDeflate({ dictionary: DICTIONARY, level: 9 });
    const decompressor = new HeaderDecompressor();
    for (const headers of HEADERS) {
      deflate.write(plainBlock(headers));
      await new Promise<void>((resolve) => {
        deflate.flush(constants.Z_SYNC_FLUSH, resolve);
      });
      assert.deepEqual(decompressor.decompress(deflate.read() as Buffer), headers);
    }
    deflate.destroy();
  });

  it("are refused when they inflate to more than 64 KiB", () => {
    const bomb = new HeaderCompressor().compress({ bomb: "x".repeat(100_000) });
    assert.throws(() => new HeaderDecompressor().decompress(bomb), {
      code: "ERR_BUFFER_TOO_LARGE",
    });
  });

  it("are refused without the dictionary", () => {
    const decompress = (block: Buffer) => new HeaderDecompressor().decompress(block);
    assert.throws(() => decompress(Buffer.from("789c00000000", "hex")), /dictionary/);
    assert.throws(() => decompress(Buffer.alloc(0)), /dictionary/);
  });

  it("are refused when a text is longer than its block", () => {
    const block = deflateSync(Buffer.concat([uint32(1), uint32(100), Buffer.from("x")]), {
      dictionary: DICTIONARY,
      finishFlush: constants.Z_SYNC_FLUSH,
    });
    assert.throws(() => new HeaderDecompressor().decompress(block), /longer than its block/);
  });
});

function plainBlock(headers: Readonly<Record<string, string>>): Buffer {
  const entries = Object.entries(headers);
  const texts = entries
    .flat()
    .flatMap((text) => [uint32(Buffer.byteLength(text)), Buffer.from(text)]);
  return Buffer.concat([uint32(entries.length), ...texts]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
