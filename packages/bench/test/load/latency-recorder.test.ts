import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LatencyRecorder } from "../../src/load/latency-recorder.ts";

describe("LatencyRecorder", () => {
  it("keeps more latencies than it first had room for", () => {
    const recorder = new LatencyRecorder();
    for (let latencyMs = 100_000; latencyMs >= 1; latencyMs--) recorder.add(latencyMs);
    assert.equal(recorder.count, 100_000);
    assert.deepEqual(recorder.summary(), { p50Ms: 50_000, p99Ms: 99_000, maxMs: 100_000 });
  });

  it("is all zeros when nothing happened", () => {
    assert.deepEqual(new LatencyRecorder().summary(), { p50Ms: 0, p99Ms: 0, maxMs: 0 });
  });
});
