import type { CancelTimer, Clock } from "@reachback/common";
import { MAX_HANDSHAKES, SLOW_HANDSHAKE_MS } from "../limits.ts";

/** The right of one attempt to shake hands. */
export interface HandshakeTurn {
  /** Resolves when it is there; never, if {@link over} comes first. */
  readonly come: Promise<void>;
  /** It is needed no more. Idempotent. */
  over(): void;
}

/**
 * Lets {@link MAX_HANDSHAKES} attempts at one place shake hands at a time, in the order in which they
 * asked. One that takes {@link SLOW_HANDSHAKE_MS} goes on, and keeps the next one waiting no longer.
 */
export class HandshakeTurns {
  readonly #clock: Clock;
  readonly #waiting = new Set<() => void>();
  #takenCount = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  take(): HandshakeTurn {
    let cancelSlow: CancelTimer | undefined;
    let isOver = false;
    let begin: () => void = () => undefined;
    const over = () => {
      if (isOver) return;
      isOver = true;
      if (this.#waiting.delete(begin)) return;
      cancelSlow?.();
      this.#takenCount--;
      const [next] = this.#waiting;
      next?.();
    };
    const come = new Promise<void>((resolve) => {
      begin = () => {
        this.#waiting.delete(begin);
        this.#takenCount++;
        cancelSlow = this.#clock.schedule(SLOW_HANDSHAKE_MS, over);
        resolve();
      };
    });
    if (this.#takenCount < MAX_HANDSHAKES) begin();
    else this.#waiting.add(begin);
    return { come, over };
  }
}
