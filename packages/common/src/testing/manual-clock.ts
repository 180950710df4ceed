import type { CancelTimer, Clock } from "../clock.ts";

interface Timer {
  readonly dueMs: number;
  readonly order: number;
  readonly callback: () => void;
}

/** A clock that stands still until a test moves it; timers fire in due order. */
export class ManualClock implements Clock {
  #nowMs = 0;
  #order = 0;
  readonly #wallStartMs: number;
  readonly #timers = new Set<Timer>();

  constructor(wallStartMs = 1_700_000_000_000) {
    this.#wallStartMs = wallStartMs;
  }

  get pendingTimers(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#nowMs;
  }

  wallTimeMs(): number {
    return this.#wallStartMs + this.#nowMs;
  }

  schedule(delayMs: number, callback: () => void): CancelTimer {
    const timer: Timer = {
      dueMs: this.#nowMs + Math.max(0, delayMs),
      order: this.#order++,
      callback,
    };
    this.#timers.add(timer);
    return () => {
      this.#timers.delete(timer);
    };
  }

  /** Move time forward, firing every timer that becomes due on the way, each at its own instant. */
  advance(byMs: number): void {
    const endMs = this.#nowMs + byMs;
    for (let next = this.#nextDue(endMs); next !== undefined; next = this.#nextDue(endMs)) {
      this.#nowMs = next.dueMs;
      this.#timers.delete(next);
      next.callback();
    }
    this.#nowMs = endMs;
  }

  #nextDue(endMs: number): Timer | undefined {
    let earliest: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.dueMs > endMs) continue;
      if (
        earliest === undefined ||
        timer.dueMs < earliest.dueMs ||
        (timer.dueMs === earliest.dueMs && timer.order < earliest.order)
      ) {
        earliest = timer;
      }
    }
    return earliest;
  }
}
