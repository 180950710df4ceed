import type { CancelTimer, Clock } from "@reachback/common";

/** Notices when nothing has happened for some time: what `setTimeout` of a Node socket does. */
export class IdleTimer {
  readonly #clock: Clock;
  readonly #onIdle: () => void;
  #timeoutMs = 0;
  #lastActiveMs = 0;
  #cancel: CancelTimer | undefined;

  constructor(clock: Clock, onIdle: () => void) {
    this.#clock = clock;
    this.#onIdle = onIdle;
  }

  /** 0 while there is none. */
  get timeoutMs(): number {
    return this.#timeoutMs;
  }

  /** Begin to wait, anew if it does already. @param timeoutMs - 0 to stop. */
  set(timeoutMs: number): void {
    this.stop();
    this.#timeoutMs = timeoutMs;
    this.touch();
  }

  /** Something happened. */
  touch(): void {
    if (this.#timeoutMs === 0) return;
    this.#lastActiveMs = this.#clock.now();
    if (this.#cancel === undefined) this.#wait(this.#timeoutMs);
  }

  stop(): void {
    this.#timeoutMs = 0;
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #wait(delayMs: number): void {
    this.#cancel = this.#clock.schedule(delayMs, () => {
      this.#cancel = undefined;
      const remainingMs = this.#lastActiveMs + this.#timeoutMs - this.#clock.now();
      if (remainingMs > 0) this.#wait(remainingMs);
      else this.#onIdle();
    });
  }
}
