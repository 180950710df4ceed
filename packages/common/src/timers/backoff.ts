import type { Random } from "../random.ts";

export interface BackoffOptions {
  /** The first wait, in milliseconds. */
  readonly initialMs: number;
  /** No wait is longer than this, jitter aside. */
  readonly capMs: number;
  /** Each wait is this many times the one before. */
  readonly factor: number;
  /** Each wait is made longer by up to this share of itself, at random. */
  readonly jitter: number;
}

/** `baseMs` made longer by a random share of itself, at most `jitter`. */
export function jittered(baseMs: number, jitter: number, random: Random): number {
  return baseMs * (1 + jitter * random.fraction());
}

/** Growing, jittered waits between attempts that fail. */
export class Backoff {
  readonly #options: BackoffOptions;
  readonly #random: Random;
  #nextMs: number;

  constructor(options: BackoffOptions, random: Random) {
    this.#options = options;
    this.#random = random;
    this.#nextMs = options.initialMs;
  }

  /** How long to wait before the next attempt, in milliseconds. */
  next(): number {
    const baseMs = Math.min(this.#nextMs, this.#options.capMs);
    this.#nextMs = Math.min(baseMs * this.#options.factor, this.#options.capMs);
    return jittered(baseMs, this.#options.jitter, this.#random);
  }

  /** An attempt succeeded: the next wait is the first again. */
  reset(): void {
    this.#nextMs = this.#options.initialMs;
  }
}
