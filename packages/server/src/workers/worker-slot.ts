import { Backoff } from "@reachback/common";
import type { CancelTimer, Clock, Logger, Random } from "@reachback/common";
import type { ReviewedToken } from "../authentication/verdict.ts";
import {
  WORKER_CHECK_INTERVAL_MS,
  WORKER_MUTE_MS,
  WORKER_RESTART,
  WORKER_SETTLED_MS,
  WORKER_START_TIMEOUT_MS,
} from "../limits.ts";
import { writeLine } from "./channel-logger.ts";
import type { ToWorker, TunnelChange, WorkerReport } from "./messages.ts";
import { WorkerProcess } from "./worker-process.ts";

export interface SlotPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

/** What the owner of a slot is told. */
export interface SlotOwner {
  /** A worker, perhaps not the first, takes sockets from now on. */
  workerStarted(slot: WorkerSlot): void;
  workerLost(slot: WorkerSlot): void;
  tunnelChanged(slot: WorkerSlot, change: TunnelChange): void;
  tokenReviewed(slot: WorkerSlot, reviewed: ReviewedToken): void;
  /** While the server stops: {@link WorkerSlot.heldCount} is another one. */
  heldChanged(): void;
}

/** The place of one worker: it has the id of a server, and one process after the other. */
export class WorkerSlot {
  /** From 1. */
  readonly number: number;
  readonly #startMessage: Extract<ToWorker, { type: "start" }>;
  readonly #ports: SlotPorts;
  readonly #owner: SlotOwner;
  readonly #backoff: Backoff;
  #process: WorkerProcess | undefined;
  #hasStarted = false;
  /** Once it is, a worker that dies is not replaced. */
  #isStopping = false;
  /** Once it is, the process ends because it was told to. */
  #isEnding = false;
  #heldCount = 0;
  #cancelTimer: CancelTimer | undefined;
  #cancelCheck: CancelTimer | undefined;
  #heardAtMs = 0;
  #isMute = false;
  /** What the process has said last of itself. */
  #lastReport: WorkerReport | undefined;
  /** How its tunnels have come, and which of them drain; by its number for each. */
  readonly #opened = new Map<number, TunnelChange>();
  readonly #draining = new Map<number, TunnelChange>();

  constructor(
    startMessage: Extract<ToWorker, { type: "start" }>,
    ports: SlotPorts,
    owner: SlotOwner,
  ) {
    this.number = startMessage.slot;
    this.#startMessage = startMessage;
    this.#ports = ports;
    this.#owner = owner;
    this.#backoff = new Backoff(WORKER_RESTART, ports.random);
  }

  /** The process that takes sockets, if there is one now. */
  get process(): WorkerProcess | undefined {
    return this.#hasStarted ? this.#process : undefined;
  }

  /** Whether it left the last question unanswered. */
  get isMute(): boolean {
    return this.#isMute;
  }

  get tunnelCount(): number {
    return this.#opened.size;
  }

  /** What there is to know of its agents' tunnels. */
  get tunnels(): readonly TunnelChange[] {
    return [...this.#opened.values(), ...this.#draining.values()];
  }

  /** Connections and dials that it held when it last said so, while the server stops. */
  get heldCount(): number {
    return this.#heldCount;
  }

  get lastReport(): WorkerReport | undefined {
    return this.#lastReport;
  }

  /** Ask the worker how it does; a dead or mute one has said it before. */
  async refresh(): Promise<void> {
    const { process } = this;
    if (process === undefined) return;
    const report = await process.report();
    if (process !== this.#process) return;
    this.#isMute = report === undefined;
    if (report === undefined) return;
    this.#heardAtMs = this.#ports.clock.now();
    this.#lastReport = report;
  }

  /** Start the first worker. @throws what it fails with. */
  start(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#spawn(resolve, (reason) => {
        reject(new Error(reason));
      });
    });
  }

  send(message: ToWorker): void {
    this.process?.send(message);
  }

  // The steps of a stop, see `Server`.

  async leave(): Promise<void> {
    this.#replaceNoMore();
    // One that is slow to say what it holds may hold much.
    if (this.process !== undefined) this.#setHeld(Math.max(1, this.#heldCount));
    await this.process?.leave();
  }

  async acceptNoMore(): Promise<void> {
    this.#replaceNoMore();
    await this.process?.acceptNoMore();
  }

  /** End the worker: with a last word for all that is open, at once after `timeoutMs`. */
  async end(timeoutMs: number): Promise<void> {
    this.#replaceNoMore();
    this.#isEnding = true;
    const process = this.#process;
    if (process === undefined) return;
    process.send({ type: "end" });
    const cancel = this.#ports.clock.schedule(timeoutMs, () => {
      process.kill();
    });
    await process.exited;
    cancel();
  }

  /** End the worker at once. */
  async kill(): Promise<void> {
    await this.end(0);
  }

  #replaceNoMore(): void {
    this.#isStopping = true;
    this.#cancelTimer?.();
    this.#cancelCheck?.();
    // One that is still starting has nothing to do any more.
    if (!this.#hasStarted) this.#process?.kill();
  }

  /**
   * Ask again and again how it does: what it has said last is not old when it dies, and one that says
   * nothing any more is replaced.
   */
  #check(process: WorkerProcess): void {
    const { clock } = this.#ports;
    this.#cancelCheck = clock.schedule(WORKER_CHECK_INTERVAL_MS, () => {
      void this.refresh().then(() => {
        if (process !== this.#process || this.#isStopping) return;
        if (clock.now() - this.#heardAtMs < WORKER_MUTE_MS) this.#check(process);
        else process.giveUp(`it has answered nothing for ${WORKER_MUTE_MS / 1000} s`);
      });
    });
  }

  #remember(change: TunnelChange): void {
    switch (change.type) {
      case "opened":
        this.#opened.set(change.tunnel, change);
        return;
      case "draining":
        this.#draining.set(change.tunnel, change);
        return;
      case "retired":
        this.#opened.delete(change.tunnel);
        this.#draining.delete(change.tunnel);
        return;
    }
  }

  #setHeld(count: number): void {
    if (this.#heldCount === count) return;
    this.#heldCount = count;
    this.#owner.heldChanged();
  }

  /** @param onFailed - Called if it ends before it has started. */
  #spawn(onStarted: () => void, onFailed: (reason: string) => void): void {
    const { clock, logger } = this.#ports;
    const worker = this.number;
    let reason: string | undefined;
    const process = new WorkerProcess(clock, {
      started: () => {
        cancelDeadline();
        this.#hasStarted = true;
        this.#cancelTimer = clock.schedule(WORKER_SETTLED_MS, () => {
          this.#backoff.reset();
        });
        this.#heardAtMs = clock.now();
        this.#isMute = false;
        this.#check(process);
        logger.info("worker.started", { worker, pid: process.pid });
        this.#owner.workerStarted(this);
        onStarted();
      },
      failed: (message) => {
        reason = message;
        process.kill();
      },
      tunnelChanged: (change) => {
        this.#remember(change);
        this.#owner.tunnelChanged(this, change);
      },
      tokenReviewed: (reviewed) => {
        this.#owner.tokenReviewed(this, reviewed);
      },
      heldChanged: (count) => {
        this.#setHeld(count);
      },
      log: (message) => {
        writeLine(message, worker, logger);
      },
      exited: (how) => {
        cancelDeadline();
        this.#cancelTimer?.();
        this.#cancelCheck?.();
        const hadStarted = this.#hasStarted;
        this.#process = undefined;
        this.#hasStarted = false;
        this.#opened.clear();
        this.#draining.clear();
        const error = new Error(reason ?? `the process ended with ${how}`);
        if (!hadStarted) {
          onFailed(error.message);
        } else if (!this.#isEnding) {
          logger.error("worker.lost", error, { worker, pid: process.pid });
          this.#owner.workerLost(this);
          this.#lastReport = undefined;
          if (!this.#isStopping) this.#replaceLater();
        }
        this.#setHeld(0);
      },
    });
    this.#process = process;
    const cancelDeadline = clock.schedule(WORKER_START_TIMEOUT_MS, () => {
      reason = `not started within ${WORKER_START_TIMEOUT_MS / 1000} s`;
      process.kill();
    });
    process.send(this.#startMessage);
  }

  #replaceLater(): void {
    const { clock, logger } = this.#ports;
    this.#cancelTimer = clock.schedule(this.#backoff.next(), () => {
      this.#spawn(
        () => undefined,
        (reason) => {
          if (this.#isStopping) return;
          logger.error("worker.failed", new Error(reason), { worker: this.number });
          this.#replaceLater();
        },
      );
    });
  }
}
