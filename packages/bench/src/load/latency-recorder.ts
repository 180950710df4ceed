import { percentile } from "../statistics.ts";

/** All of them in milliseconds; zero if there was nothing to measure. */
export interface LatencySummary {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** Keeps every latency; adding one costs next to nothing. */
export class LatencyRecorder {
  #values = new Float64Array(8192);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(latencyMs: number): void {
    if (this.#count === this.#values.length) {
      const larger = new Float64Array(this.#values.length * 2);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.#count++] = latencyMs;
  }

  summary(): LatencySummary {
    if (this.#count === 0) return { p50Ms: 0, p99Ms: 0, maxMs: 0 };
    const sorted = this.#values.slice(0, this.#count).sort();
    return {
      p50Ms: percentile(sorted, 0.5),
      p99Ms: percentile(sorted, 0.99),
      maxMs: percentile(sorted, 1),
    };
  }
}
