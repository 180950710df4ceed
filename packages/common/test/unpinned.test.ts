import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { unpinned } from "../src/unpinned.ts";

const KIB = 1024;

describe("unpinned", () => {
  it("copies a small part of something large", () => {
    const large = Buffer.alloc(64 * KIB, 7);
    const copy = unpinned(large.subarray(10, 110));
    large.fill(0);
    assert.deepEqual(copy, Buffer.alloc(100, 7));
  });

  it("copies nothing that costs more than it keeps alive", () => {
    const large = Buffer.alloc(64 * KIB);
    for (const piece of [large, large.subarray(4 * KIB, 8 * KIB), Buffer.alloc(3 * KIB)]) {
      assert.equal(unpinned(piece), piece);
    }
  });
});
