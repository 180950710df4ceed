import assert from "node:assert/strict";
import { PerformanceObserver, constants } from "node:perf_hooks";
import { describe, it } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import { GarbageBound, boundGarbage } from "../src/garbage-bound.ts";

const MIB = 1024 * 1024;

/** A heap of 10 MiB that live, and a bound of 4 MiB for garbage. */
function smallHeap(collectionMs = 0) {
  const clock = new ManualClock();
  const heap = {
    liveMib: 10,
    garbageMib: 0,
    /** Buffers that are freed, which V8 does not know yet. */
    freedMib: 0,
    collections: 0,
    usedBytes: () => (heap.liveMib + heap.garbageMib + heap.freedMib) * MIB,
    collect: () => {
      heap.garbageMib = 0;
      heap.collections++;
      clock.advance(collectionMs);
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

  it("leaves more where a collection takes long", () => {
    const { clock, heap, bound } = smallHeap(40);
    heap.garbageMib = 5;
    bound.youngCollected();
    heap.garbageMib = 5;
    clock.advance(799);
    bound.youngCollected();
    assert.equal(heap.collections, 1);
    clock.advance(1);
    bound.youngCollected();
    assert.equal(heap.collections, 2);
  });

  it("is not raised by buffers that V8 does not know to be freed", () => {
    const { clock, heap, bound } = smallHeap();
    heap.freedMib = 5;
    bound.youngCollected();
    bound.allCollected();
    assert.equal(heap.collections, 1);
    clock.advance(500);
    heap.freedMib = 0;
    bound.youngCollected();
    heap.garbageMib = 5;
    bound.youngCollected();
    assert.equal(heap.collections, 2);
  });

  for (const [memory, limitBytes, isBound] of [
    ["little", 16 * MIB, true],
    ["much", 1024 * MIB, false],
  ] as const) {
    it(`${isBound ? "makes" : "leaves"} V8 collect everything ${isBound ? "often" : "as it will"} in a process with ${memory} memory`, async () => {
      const clock = new ManualClock();
      const stop = boundGarbage(1, clock, limitBytes);
      let collections = 0;
      const observer = new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) {
          const { kind } = (entry as { readonly detail?: { readonly kind?: number } }).detail ?? {};
          if (kind === constants.NODE_PERFORMANCE_GC_MAJOR) collections++;
        }
      });
      observer.observe({ entryTypes: ["gc"] });
      // Some 400 MB, of which 10 live, and so long that they are old when they die.
      const living: unknown[] = [];
      for (let round = 0; round < 400; round++) {
        for (let count = 0; count < 10_000; count++) living.push({ round, count, more: [count] });
        if (living.length > 100_000) living.splice(0, 10_000);
        clock.advance(1_000);
        await new Promise((resolve) => setImmediate(resolve));
      }
      observer.disconnect();
      stop();
      assert.equal(collections > 12, isBound, `${collections} collections`);
    });
  }
});
