import type { CancelTimer, Clock } from "../clock.ts";

export interface KeepaliveOptions {
  /** Silence from the peer after which it is asked for a sign of life, in milliseconds. */
  readonly intervalMs: number;

  /** How long it may take to give one, in milliseconds, before it counts as gone. */
  readonly timeoutMs: number;
}

/** What a {@link Keepalive} watches over. */
export interface KeepaliveTarget {
  /** When anything was last received, in the clock's milliseconds. */
  readonly lastHeardMs: number;
  sendPing(): void;
  /** The peer is gone. Called at most once. */
  onDead(silentForMs: number): void;
}

/**
 * Detects a peer that has gone without a word.
 *
 * Traffic is itself proof of life, so a busy connection carries no pings. There is one timer, not
 * one per packet: it looks at when something was last heard.
 */
export class Keepalive {
  readonly #options: KeepaliveOptions;
  readonly #clock: Clock;
  readonly #target: KeepaliveTarget;
  #cancel: CancelTimer | undefined;

  constructor(options: KeepaliveOptions, clock: Clock, target: KeepaliveTarget) {
    this.#options = options;
    this.#clock = clock;
    this.#target = target;
  }

  start(): void {
    this.#awaitSilence();
  }

  /** Stop for good. Idempotent. */
  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #awaitSilence(): void {
    const silentForMs = this.#clock.now() - this.#target.lastHeardMs;
    this.#cancel = this.#clock.schedule(this.#options.intervalMs - silentForMs, () => {
      if (this.#clock.now() - this.#target.lastHeardMs < this.#options.intervalMs) {
        this.#awaitSilence();
      } else {
        this.#ask();
      }
    });
  }

  #ask(): void {
    this.#awaitAnswer(this.#clock.now());
    this.#target.sendPing();
  }

  /** Look again when the answer is overdue, or when it would be time for the next question. */
  #awaitAnswer(askedAtMs: number): void {
    const { intervalMs, timeoutMs } = this.#options;
    const remainingMs = askedAtMs + timeoutMs - this.#clock.now();
    this.#cancel = this.#clock.schedule(Math.min(remainingMs, intervalMs), () => {
      if (this.#target.lastHeardMs >= askedAtMs) {
        this.#awaitSilence();
      } else if (this.#clock.now() - askedAtMs < timeoutMs) {
        this.#awaitAnswer(askedAtMs);
      } else {
        this.#cancel = undefined;
        this.#target.onDead(this.#clock.now() - this.#target.lastHeardMs);
      }
    });
  }
}
