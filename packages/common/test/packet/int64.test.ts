import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { int64FromBigInt, varintBytes, writeVarint } from "../../src/packet/int64.ts";
import { int64s, varintOracle } from "./packets.ts";

describe("writeVarint and varintBytes", () => {
  it("write varints of every length, as long as they say", () => {
    fc.assert(
      fc.property(int64s, (value) => {
        const id = int64FromBigInt(value);
        const target = Buffer.alloc(10);
        const end = writeVarint(target, 0, id);
        assert.equal(end, varintBytes(id));
        assert.equal(varintOracle(value), target.subarray(0, end).toString("hex"));
      }),
      { numRuns: 2_000 },
    );
  });
});
