import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  DataHeadReader,
  MAX_DATA_HEAD_BYTES,
  NEED_MORE,
  NOT_PLAIN_DATA,
} from "../../src/packet/data-head-reader.ts";
import { encodeDataHead } from "../../src/packet/packet-encoder.ts";
import { connectionId, withoutPrefix } from "./packets.ts";

const reader = new DataHeadReader();

/** What the reader says of the first `bytes` of a message, which stand behind others. */
function readFirst(message: Buffer, bytes: number): number {
  const arrived = Buffer.concat([Buffer.alloc(3, 0xee), message.subarray(0, bytes)]);
  const result = reader.read(arrived, 3, arrived.length, message.length);
  return result < 0 ? result : result - 3;
}

describe("DataHeadReader", () => {
  it("finds the payload as soon as its head is there, and not before", () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.nat(300), fc.nat(2 ** 49 - 1)),
        fc.oneof(fc.integer({ min: 1, max: 300 }), fc.constantFrom(16_384, 2_100_000)),
        (id, payloadBytes) => {
          const head = encodeDataHead(connectionId(BigInt(id)), payloadBytes);
          const message = withoutPrefix(Buffer.concat([head, Buffer.alloc(payloadBytes)]));
          const headBytes = head.length - 5;
          for (let bytes = 0; bytes < headBytes; bytes++) {
            assert.equal(readFirst(message, bytes), NEED_MORE);
          }
          assert.equal(readFirst(message, headBytes), headBytes);
          assert.equal(reader.connectionId, id);
        },
      ),
    );
  });

  for (const [what, hex] of [
    ["another packet", "0802 2a020805"],
    ["a payload message that does not end the packet", "0804 2205 0801 1a0178 4801"],
    ["bytes that do not end their message", "0804 2207 0801 1a0178 4801"],
    ["an error in front of the bytes", "0804 2208 0801 120165 1a0178"],
    ["an id of eight bytes", "0804 220c 088080808080808001 1a0178"],
    ["a length of six bytes", "0804 85808080 8000 0801 1a0178"],
  ] as const) {
    it(`leaves to the slow path ${what}`, () => {
      const message = Buffer.from(hex.replaceAll(" ", ""), "hex");
      assert.equal(readFirst(message, message.length), NOT_PLAIN_DATA);
    });
  }

  it("needs no more than its largest head, however the numbers in it are spelled", () => {
    // Lengths in five bytes, the id in seven.
    const head = "0804 22 a280808000 08 81808080808000 1a 9480808000";
    const message = Buffer.concat([Buffer.from(head.replaceAll(" ", ""), "hex"), Buffer.alloc(20)]);
    assert.equal(readFirst(message, MAX_DATA_HEAD_BYTES - 1), NEED_MORE);
    assert.equal(readFirst(message, MAX_DATA_HEAD_BYTES), MAX_DATA_HEAD_BYTES);
    assert.equal(reader.connectionId, 1);
  });
});
