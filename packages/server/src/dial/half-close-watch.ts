import { SilenceWatch } from "@reachback/common";
import type { Clock, Flow } from "@reachback/common";
import { STUCK_MS } from "../limits.ts";

/** What a half-closed connection waits for. */
export type WaitsFor =
  /** The client has to say something, or to finish. */
  | "client"
  /** The agent has to take what waits here. */
  | "agent"
  /** It is no silence (a client that reads slowly), or the agent's to notice (the endpoint's). */
  | "others";

/** How a connection is asked, and told. */
export interface HalfClosed {
  waitsFor(): WaitsFor;
  /** Nothing has happened for too long. Called once. */
  stoodStill(waitedFor: WaitsFor): void;
}

/**
 * Notices that nothing happens any more on a connection that one side has finished. How long that may
 * be depends on whom it waits for, and that may change meanwhile.
 */
export class HalfCloseWatch {
  readonly #limitsMs: Readonly<Record<WaitsFor, number>>;
  readonly #flow: Flow;
  readonly #connection: HalfClosed;
  readonly #watch: SilenceWatch;
  #watchedMs = 0;
  /** What was silent before the time that is being watched. */
  #silentMs = 0;
  /** What waited for the agent when something happened last. */
  #queuedBytes = 0;

  /** @param clientMs - How long a client may be silent, in milliseconds; 0 to watch nothing at all. */
  constructor(clock: Clock, clientMs: number, flow: Flow, connection: HalfClosed) {
    this.#limitsMs = { client: clientMs, agent: STUCK_MS, others: Infinity };
    this.#flow = flow;
    this.#connection = connection;
    this.#watch = new SilenceWatch(clock, () => {
      this.#silent();
    });
  }

  /** Watch from now on. */
  start(): void {
    this.stop();
    this.touch();
    this.#watchOn();
  }

  /** Bytes have gone on, either way. */
  touch(): void {
    this.#silentMs = 0;
    this.#queuedBytes = this.#flow.queuedBytes;
    this.#watch.touch();
  }

  /** Watch no more. Idempotent. */
  stop(): void {
    this.#watch.stop();
  }

  #watchOn(): void {
    // Never longer than the shorter limit: it is not known yet which one it will be.
    const { client, agent } = this.#limitsMs;
    const leftMs = this.#limitsMs[this.#connection.waitsFor()] - this.#silentMs;
    this.#watchedMs = Math.min(client, agent, leftMs);
    this.#watch.start(this.#watchedMs);
  }

  #silent(): void {
    const waitsFor = this.#connection.waitsFor();
    this.#silentMs += this.#watchedMs;
    // Without credit, nobody says that bytes were taken: there are fewer of them.
    if (waitsFor === "others" || this.#flow.queuedBytes < this.#queuedBytes) this.touch();
    if (this.#silentMs < this.#limitsMs[waitsFor]) this.#watchOn();
    else this.#connection.stoodStill(waitsFor);
  }
}
