import type { Clock, Logger } from "@reachback/common";

export interface GracePeriodOptions {
  /** 0 for an immediate shutdown. */
  readonly gracefulShutdownTimeoutMs: number;
  /** The part of it in which the server still accepts. */
  readonly shutdownDelayMs: number;
}

/** What a server holds, for its log. */
export interface HeldCounts {
  readonly tunnelCount: number;
  /** Connections and pending dials: the grace period is over when there are none. */
  readonly heldCount: number;
}

/** The time from the signal that stops a server until it cuts what is left. */
export class GracePeriod {
  readonly #options: GracePeriodOptions;
  readonly #held: HeldCounts;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #deadlineMs: number;
  #finish: (() => void) | undefined;

  /** It begins now. */
  constructor(options: GracePeriodOptions, held: HeldCounts, clock: Clock, logger: Logger) {
    this.#options = options;
    this.#held = held;
    this.#clock = clock;
    this.#logger = logger;
    this.#deadlineMs = clock.now() + options.gracefulShutdownTimeoutMs;
  }

  /** Resolves when it is time to accept no more: who chooses among servers may not have heard yet. */
  async acceptTime(): Promise<void> {
    const { gracefulShutdownTimeoutMs, shutdownDelayMs } = this.#options;
    const timeMs = Math.min(shutdownDelayMs, gracefulShutdownTimeoutMs);
    this.#logger.info("shutdown.draining", {
      tunnels: this.#held.tunnelCount,
      connections: this.#held.heldCount,
      acceptsForSeconds: timeMs / 1000,
    });
    await new Promise<void>((resolve) => this.#clock.schedule(timeMs, resolve));
  }

  /** Resolves when nothing is open any more, or when the time is over. */
  async idle(): Promise<void> {
    const remainingMs = this.#deadlineMs - this.#clock.now();
    if (this.#held.heldCount > 0 && remainingMs > 0) {
      this.#logger.info("shutdown.waiting", {
        connections: this.#held.heldCount,
        seconds: Math.round(remainingMs / 1000),
      });
      await new Promise<void>((resolve) => {
        const cancel = this.#clock.schedule(remainingMs, resolve);
        this.#finish = () => {
          cancel();
          resolve();
        };
      });
    }
    const connections = this.#held.heldCount;
    if (connections === 0) return;
    this.#logger.warn("shutdown.cutting", {
      connections,
      hint: "give them more time with --graceful-shutdown-timeout",
    });
  }

  /** A connection, or a dial, is over. */
  connectionEnded(): void {
    if (this.#held.heldCount === 0) this.#finish?.();
  }
}
