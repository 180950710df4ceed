import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Turns } from "../../src/workers/turns.ts";

describe("turns", () => {
  it("bring every peer to each worker, whatever others do in between", () => {
    const turns = new Turns();
    const workersOf = new Map<string, Set<number>>();
    for (let round = 0; round < 4; round++) {
      for (const peer of ["10.0.0.1", "10.0.0.2", "10.0.0.3"]) {
        const workers = workersOf.get(peer) ?? new Set();
        workersOf.set(peer, workers.add(turns.next(peer) % 4));
        turns.next();
      }
    }
    for (const workers of workersOf.values()) assert.equal(workers.size, 4);
  });

  it("give all workers as many of peers that come once", () => {
    const turns = new Turns();
    const counts = [0, 0, 0, 0];
    for (let peer = 0; peer < 40_000; peer++) counts[turns.next(`peer ${peer}`) % 4]!++;
    assert.deepEqual(counts, [10_000, 10_000, 10_000, 10_000]);
  });
});
