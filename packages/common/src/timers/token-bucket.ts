import type { Clock } from "../clock.ts";

/** Lets something happen so often per second, and so often at once after a pause. */
export class TokenBucket {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #clock: Clock;
  #tokens: number;
  #filledAtMs: number;

  /** @param burst - At least 1; the bucket is full at first. */
  constructor(perSecond: number, burst: number, clock: Clock) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#clock = clock;
    this.#tokens = burst;
    this.#filledAtMs = clock.now();
  }

  /** Take a token and return 0; or take none, and return in how many milliseconds there is one. */
  take(): number {
    const nowMs = this.#clock.now();
    const gained = ((nowMs - this.#filledAtMs) / 1000) * this.#perSecond;
    this.#tokens = Math.min(this.#burst, this.#tokens + gained);
    this.#filledAtMs = nowMs;
    if (this.#tokens < 1) return ((1 - this.#tokens) / this.#perSecond) * 1000;
    this.#tokens -= 1;
    return 0;
  }
}
