import type { Clock } from "@reachback/common";
import type { ReviewedToken, Verdict } from "./verdict.ts";

interface Entry {
  readonly verdict: Verdict;
  /** On the monotonic clock. */
  readonly untilMs: number;
}

/** A refusal is remembered so long, and no longer than an acceptance. */
const REFUSED_TTL_MS = 10_000;

const MAX_ENTRIES = 20_000;

/** Remembers what reviews have said, by the hash of the token. */
export class VerdictCache {
  readonly #ttlMs: number;
  readonly #clock: Clock;
  /** Oldest first. */
  readonly #entries = new Map<string, Entry>();

  /** @param ttlMs - How long an acceptance is remembered at most; 0 for not at all. */
  constructor(ttlMs: number, clock: Clock) {
    this.#ttlMs = ttlMs;
    this.#clock = clock;
  }

  get(hash: string): Verdict | undefined {
    const entry = this.#entries.get(hash);
    if (entry === undefined) return undefined;
    if (entry.untilMs > this.#clock.now()) return entry.verdict;
    this.#entries.delete(hash);
    return undefined;
  }

  add({ hash, verdict, expiresAtMs }: ReviewedToken): void {
    const lifeMs = expiresAtMs - this.#clock.wallTimeMs();
    const ttlMs = verdict.accepted
      ? Math.min(this.#ttlMs, lifeMs)
      : Math.min(this.#ttlMs, REFUSED_TTL_MS);
    this.#entries.delete(hash);
    if (ttlMs <= 0) return;
    this.#entries.set(hash, { verdict, untilMs: this.#clock.now() + ttlMs });
    if (this.#entries.size <= MAX_ENTRIES) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }
}
