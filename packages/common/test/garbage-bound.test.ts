import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import { GarbageBound, boundGarbage } from "../src/garbage-bound.ts";

const MIB = 1024 * 1024;

/** A heap of 10 MiB that live, and a bound of 4 MiB for garbage. */
function smallHeap() {
  const clock = new ManualClock();
  const heap = {
    liveMib: 10,
    garbageMib: 0,
    collections: 0,
    usedBytes: () => (heap.liveMib + heap.garbageMib) * MIB,
    collect: () => {
      heap.garbageMib = 0;
      heap.collections++;
    },
  };
  return { clock, heap, bound: new GarbageBound(4 * MIB, heap, clock) };
}

describe("a bound for garbage", () => {
  it("has it collected when there is more", () => {
    const { heap, bound } = smallHeap();
    heap.garbageMib = 4;
    bound.youngCollected();
    assert.equal(heap.collections, 0);
    heap.garbageMib = 5;
    bound.youngCollected();
    assert.equal(heap.collections, 1);
    bound.youngCollected();
    assert.equal(heap.collections, 1);
  });

  it("does not take for garbage what has been seen to live", () => {
    const { clock, heap, bound } = smallHeap();
    heap.liveMib = 20;
    bound.youngCollected();
    assert.equal(heap.collections, 1);
    clock.advance(500);
    heap.garbageMib = 4;
    bound.youngCollected();
    assert.equal(heap.collections, 1);
    heap.liveMib = 30;
    heap.garbageMib = 0;
    bound.allCollected();
    bound.youngCollected();
    assert.equal(heap.collections, 1);
  });

  it("leaves half a second between collections", () => {
    const { clock, heap, bound } = smallHeap();
    heap.garbageMib = 5;
    bound.youngCollected();
    heap.garbageMib = 50;
    clock.advance(499);
    bound.youngCollected();
    assert.equal(heap.collections, 1);
    clock.advance(1);
    bound.youngCollected();
    assert.equal(heap.collections, 2);
  });

  it("holds in a process with little memory", async () => {
    const clock = new ManualClock();
    const stop = boundGarbage(2, clock, 128 * MIB);
    const usedBytes = () => process.memoryUsage().heapUsed;
    const startBytes = usedBytes();
    // What lives so long is old when it dies.
    const living: unknown[] = [];
    let mostBytes = 0;
    for (let round = 0; round < 400; round++) {
      for (let count = 0; count < 10_000; count++) living.push({ round, count, more: [count] });
      if (living.length > 100_000) living.splice(0, 10_000);
      mostBytes = Math.max(mostBytes, usedBytes());
      clock.advance(1_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    stop();
    const grownMib = (mostBytes - startBytes) / MIB;
    // 12 MiB live, 8 may be garbage, and V8's room for young objects is as large as the test process has it.
    assert.ok(grownMib < 64, `${grownMib} MiB`);
  });

  it("is left to V8 where there is much memory", () => {
    const before = process.getActiveResourcesInfo();
    boundGarbage(1, new ManualClock(), 1024 * MIB)();
    assert.deepEqual(process.getActiveResourcesInfo(), before);
  });
});
