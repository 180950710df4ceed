import type { CancelTimer, Clock } from "../clock.ts";

/** Tells when nothing has happened for a while. Nothing is watched before {@link start}. */
export class SilenceWatch {
  readonly #clock: Clock;
  readonly #onSilent: () => void;
  #timeoutMs = 0;
  #lastMs = 0;
  #cancelTimer: CancelTimer | undefined;

  /** @param onSilent - Called once, if there is a silence of the time that was asked for. */
  constructor(clock: Clock, onSilent: () => void) {
    this.#clock = clock;
    this.#onSilent = onSilent;
  }

  /** Watch from now on for a silence of `timeoutMs`; 0 for never. Without effect if it does already. */
  start(timeoutMs: number): void {
    if (this.#cancelTimer !== undefined || timeoutMs === 0) return;
    this.#timeoutMs = timeoutMs;
    this.touch();
    this.#watch(timeoutMs);
  }

  /** Something has happened. Costs a look at the clock while watching, nothing otherwise. */
  touch(): void {
    if (this.#timeoutMs > 0) this.#lastMs = this.#clock.now();
  }

  /** Watch no more. Idempotent. */
  stop(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#timeoutMs = 0;
  }

  #watch(delayMs: number): void {
    this.#cancelTimer = this.#clock.schedule(delayMs, () => {
      const leftMs = this.#lastMs + this.#timeoutMs - this.#clock.now();
      if (leftMs > 0) {
        this.#watch(leftMs);
      } else {
        this.stop();
        this.#onSilent();
      }
    });
  }
}
