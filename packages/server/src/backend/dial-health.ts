import type { Clock } from "@reachback/common";

/** What a tunnel that has failed is left out for at first, and at most; it doubles each time. */
const FIRST_PROBATION_MS = 5_000;
const LONGEST_PROBATION_MS = 60_000;

/** In this time a failure counts half as much. */
const HALF_LIFE_MS = 5_000;

/** More than these are not remembered, so that a burst is forgotten in 20 seconds. */
const MAX_RECENT_FAILURES = 8;

/**
 * What the dials of one tunnel say about its agent, long before a ping does.
 *
 * ```text
 *   sound ──unanswered──▶ failing ──probation over, or a late answer──▶ trial
 *     ▲                      ▲                                           │ │
 *     │                      └──────unanswered: twice the probation──────┘ │
 *     └───────────────────────────────answered─────────────────────────────┘
 * ```
 */
export class DialHealth {
  readonly #clock: Clock;
  /** Times in a row that the agent has failed, with no answer in between. */
  #strikes = 0;
  #struckAtMs = -Infinity;
  #probationEndMs = -Infinity;
  #answeredAtMs = -Infinity;
  #failures = 0;
  #failedAtMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `trial`: one dial may show whether it is sound again. */
  get state(): "sound" | "failing" | "trial" {
    if (this.#strikes === 0) return "sound";
    return this.#clock.now() < this.#probationEndMs ? "failing" : "trial";
  }

  /** Failures of the last seconds, each counting less as time goes by; 0 when that is nearly all. */
  get recentFailures(): number {
    if (this.#failures === 0) return 0;
    const halfLives = (this.#clock.now() - this.#failedAtMs) / HALF_LIFE_MS;
    const left = this.#failures * 2 ** -halfLives;
    return left > 0.5 ? left : 0;
  }

  /** A dial was answered in time, whatever the answer: the endpoint's refusal is none of the agent's. */
  answered(): void {
    this.#strikes = 0;
    this.#answeredAtMs = this.#clock.now();
  }

  /** A dial was answered that nobody waited for any more. */
  answeredLate(): void {
    this.#answeredAtMs = this.#clock.now();
    this.#probationEndMs = this.#answeredAtMs;
  }

  /** The agent has given a dial up without an answer. */
  dropped(): void {
    this.#countFailure();
  }

  /** A dial that was asked for at `askedAtMs` has had no answer. */
  unanswered(askedAtMs: number): void {
    this.#countFailure();
    // Others were answered meanwhile: it may be the endpoint that says nothing.
    if (this.#answeredAtMs > askedAtMs) return;
    // It was asked for before the agent was known to fail: no news.
    if (this.#strikes > 0 && askedAtMs < this.#struckAtMs) return;
    const nowMs = this.#clock.now();
    this.#strikes++;
    this.#struckAtMs = nowMs;
    const probationMs = FIRST_PROBATION_MS * 2 ** (this.#strikes - 1);
    this.#probationEndMs = nowMs + Math.min(probationMs, LONGEST_PROBATION_MS);
  }

  #countFailure(): void {
    this.#failures = Math.min(this.recentFailures + 1, MAX_RECENT_FAILURES);
    this.#failedAtMs = this.#clock.now();
  }
}
