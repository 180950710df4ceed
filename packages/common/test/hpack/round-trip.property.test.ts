import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { HeaderField, HeaderList } from "../../src/hpack/header-list.ts";
import { fieldBytes } from "../../src/hpack/header-list.ts";
import { HpackDecoder } from "../../src/hpack/hpack-decoder.ts";
import { HpackEncoder } from "../../src/hpack/hpack-encoder.ts";
import { HpackError } from "../../src/hpack/hpack-error.ts";
import { decodeHuffman, huffmanBytes, writeHuffman } from "../../src/hpack/huffman.ts";
import { STATIC_TABLE } from "../../src/hpack/static-table.ts";

const OUR_MAX_TABLE_BYTES = 8192;

const latin1 = (maxLength: number) =>
  fc.uint8Array({ maxLength }).map((octets) => Buffer.from(octets).toString("latin1"));

/** Few names and values, so that fields repeat, and some that nobody has seen before. */
const field: fc.Arbitrary<HeaderField> = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...STATIC_TABLE) },
  {
    weight: 4,
    arbitrary: fc.tuple(
      fc.constantFrom(":path", ":authority", "te", "user-agent", "content-type", "grpc-status"),
      fc.integer({ min: 0, max: 12 }).map((value) => String(value).repeat(value * value)),
    ),
  },
  { weight: 1, arbitrary: fc.tuple(fc.constantFrom(":path", "te"), latin1(300)) },
  { weight: 2, arbitrary: fc.tuple(latin1(20), latin1(60)) },
);

const headerList = fc.array(field, { maxLength: 40 });

type Step = { readonly headers: HeaderList } | { readonly maxTableBytes: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ headers: headerList }) },
  {
    weight: 1,
    arbitrary: fc.record({
      maxTableBytes: fc.oneof(
        fc.constantFrom(0, 33, 64, 4096, OUR_MAX_TABLE_BYTES),
        fc.integer({ min: 0, max: OUR_MAX_TABLE_BYTES }),
      ),
    }),
  },
);

function listBytes(headers: HeaderList): number {
  return headers.reduce((bytes, header) => bytes + fieldBytes(header), 0);
}

describe("HpackEncoder and HpackDecoder", () => {
  it("bring back every header list of a connection, whatever happens to the table size", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), fc.nat(OUR_MAX_TABLE_BYTES), (steps, own) => {
        const encoder = new HpackEncoder({ maxTableBytes: own });
        const decoder = new HpackDecoder({ maxTableBytes: OUR_MAX_TABLE_BYTES });
        for (const next of steps) {
          if ("maxTableBytes" in next) encoder.setMaxTableBytes(next.maxTableBytes);
          else {
            assert.deepEqual(decoder.decode(encoder.encode(next.headers)), {
              tooLarge: false,
              headers: next.headers,
            });
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  it("agree on the table after lists that are too large", () => {
    fc.assert(
      fc.property(fc.array(headerList, { maxLength: 20 }), fc.nat(3000), (lists, maxListBytes) => {
        const encoder = new HpackEncoder();
        const decoder = new HpackDecoder({ maxListBytes });
        for (const headers of lists) {
          assert.deepEqual(
            decoder.decode(encoder.encode(headers)),
            listBytes(headers) > maxListBytes ? { tooLarge: true } : { tooLarge: false, headers },
          );
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe("Huffman code", () => {
  it("brings back any text", () => {
    fc.assert(
      fc.property(latin1(2000), (text) => {
        const bytes = Buffer.alloc(huffmanBytes(text));
        writeHuffman(text, bytes, 0);
        assert.equal(decodeHuffman(bytes, 0, bytes.length), text);
      }),
    );
  });

  it("has one encoding for each text: whatever decodes, encodes to the same bytes", () => {
    const biased = fc.array(fc.oneof(fc.constantFrom(0xff, 0xfe, 0x00), fc.nat(255)), {
      maxLength: 40,
    });
    fc.assert(
      fc.property(biased, (octets) => {
        const source = Buffer.from(octets);
        let text: string;
        try {
          text = decodeHuffman(source, 0, source.length);
        } catch (error) {
          assert.ok(error instanceof HpackError);
          return;
        }
        const bytes = Buffer.alloc(huffmanBytes(text));
        writeHuffman(text, bytes, 0);
        assert.deepEqual(bytes, source);
      }),
      { numRuns: 2000 },
    );
  });
});

describe("HpackDecoder, fed garbage", () => {
  /** Decodes on one connection until the first error, which must be an {@link HpackError}. */
  function decodeUntilError(blocks: Iterable<Uint8Array>): void {
    const maxListBytes = 2000;
    const decoder = new HpackDecoder({ maxListBytes });
    try {
      for (const block of blocks) {
        const decoded = decoder.decode(Buffer.from(block));
        assert.ok(decoded.tooLarge || listBytes(decoded.headers) <= maxListBytes);
      }
    } catch (error) {
      if (!(error instanceof HpackError)) throw error;
    }
  }

  it("throws nothing but HpackError for random octets", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 10 }), decodeUntilError),
      { numRuns: 2000 },
    );
  });

  it("throws nothing but HpackError for damaged blocks", () => {
    const damage = fc.record({ at: fc.nat(10_000), octet: fc.nat(255), cut: fc.boolean() });
    fc.assert(
      fc.property(fc.array(fc.tuple(headerList, damage), { maxLength: 5 }), (messages) => {
        const encoder = new HpackEncoder();
        decodeUntilError(
          messages.map(([headers, { at, octet, cut }]) => {
            const block = encoder.encode(headers);
            if (block.length === 0) return block;
            if (cut) return block.subarray(0, at % block.length);
            block[at % block.length] = octet;
            return block;
          }),
        );
      }),
      { numRuns: 1000 },
    );
  });

  it("takes time in proportion to the octets, whichever octet a block repeats", () => {
    // 256 blocks of 64 KiB, 16 MiB in all. At linear cost that is well below a second; if the cost
    // were quadratic in a block's length, minutes.
    const startedAtMs = performance.now();
    for (let octet = 0; octet <= 0xff; octet++) {
      const entry = Buffer.concat([
        Buffer.from([0x40, 0x01, 0x61, 0x7f, 0x81, 0x1d]),
        Buffer.alloc(3840, 0x62),
      ]);
      decodeUntilError([entry, Buffer.alloc(65_536, octet)]);
    }
    assert.ok(performance.now() - startedAtMs < 5_000);
  });

  it("takes time in proportion to the octets for the most evictions a block can cause", () => {
    // Each field of three octets, an empty name and value, pushes one out of the 128 entries.
    const block = Buffer.alloc(3 * 21_845, Buffer.from([0x40, 0x00, 0x00]));
    const startedAtMs = performance.now();
    decodeUntilError(Array.from({ length: 20 }, () => block));
    assert.ok(performance.now() - startedAtMs < 5_000);
  });
});
