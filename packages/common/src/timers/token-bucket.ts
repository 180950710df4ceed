import type { Clock } from "../clock.ts";

/** Lets something happen so often per second, and so often at once after a pause. */
export class TokenBucket {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #clock: Clock;
  #tokens: number;
  /** Up to when tokens have been added; in the future while it is paused. */
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
    if (nowMs < this.#filledAtMs) return this.#filledAtMs - nowMs;
    const gained = ((nowMs - this.#filledAtMs) / 1000) * this.#perSecond;
    this.#tokens = Math.min(this.#burst, this.#tokens + gained);
    this.#filledAtMs = nowMs;
    if (this.#tokens < 1) return ((1 - this.#tokens) / this.#perSecond) * 1000;
    this.#tokens -= 1;
    return 0;
  }

  /** Whether a {@link pause} lasts. */
  get isPaused(): boolean {
    return this.#clock.now() < this.#filledAtMs;
  }

  /** Give out nothing for so long, and then one at a time: what was saved up is gone. */
  pause(durationMs: number): void {
    this.#tokens = 1;
    this.#filledAtMs = this.#clock.now() + durationMs;
  }
}
