import { MessageChannel } from "node:worker_threads";
import type { CancelTimer, Clock } from "../clock.ts";
import type { LogTarget } from "./log-target.ts";

const MAX_QUEUED_BYTES = 4 << 20;
const MAX_WRITE_BYTES = 64 << 10;

/** How long a target that can take nothing is left alone. */
const RETRY_MS = 50;

/** A pooled write older than this is taken to be stuck, and an exit does not line up behind it. */
const STUCK_WRITE_MS = 500;

/** How often, and how long each time, an exit gives a full pipe a chance. */
const EXIT_RETRIES = 25;
const EXIT_RETRY_MS = 10;

export interface LogSinkEvents {
  /** So many lines have been given up so far; called once the target takes lines again. */
  dropped(totalLines: number): void;

  /** The target refuses lines; called once, until it has taken one again. */
  failed(error: unknown): void;
}

/**
 * Lines on their way to a {@link LogTarget}, in order and with a bound.
 *
 * Writing never waits: what the target does not take is queued up to 4 MiB, and beyond that the
 * newest lines are dropped and counted.
 */
export class LogSink {
  readonly #target: LogTarget;
  readonly #clock: Clock;
  readonly #events: LogSinkEvents;
  #queue: Buffer[] = [];
  #queuedBytes = 0;
  /** What the target was offered last and has not taken in full. */
  #chunk: Buffer | undefined;
  #chunkLines = 0;
  #writingSinceMs: number | undefined;
  #cancelRetry: CancelTimer | undefined;
  #pumping = false;
  #droppedLines = 0;
  #reportedLines = 0;
  #failing = false;
  #closing: Promise<void> | undefined;
  #closed = false;
  #onIdle: (() => void) | undefined;

  constructor(target: LogTarget, clock: Clock, events: LogSinkEvents) {
    this.#target = target;
    this.#clock = clock;
    this.#events = events;
  }

  /** Append `line`, which ends in a newline. */
  write(line: string): void {
    const bytes = Buffer.from(line);
    if (this.#closed || this.#queuedBytes + bytes.length > MAX_QUEUED_BYTES) {
      this.#droppedLines++;
      return;
    }
    this.#queue.push(bytes);
    this.#queuedBytes += bytes.length;
    this.#pump();
  }

  reopen(): void {
    this.#target.reopen?.();
  }

  /**
   * Wait until the target has everything, but no longer than `timeoutMs`; what is left then is
   * lost, as are later lines. The process stays alive for as long. Idempotent.
   */
  close(timeoutMs: number): Promise<void> {
    this.#closing ??= this.#idleWithin(timeoutMs).then(() => {
      this.#closed = true;
      this.#cancelRetry?.();
      // A write still under way uses the descriptor; the end of the process closes it then.
      if (this.#writingSinceMs === undefined) this.#target.close();
    });
    return this.#closing;
  }

  /**
   * Hand over what is queued at once, blocking for a quarter of a second at most where a pipe is
   * full. For the moment before an exit, when no callback runs any more.
   */
  flushSync(): void {
    if (this.#closed) return;
    const pending = this.#queue.splice(0);
    this.#queuedBytes = 0;
    if (this.#writingSinceMs !== undefined) {
      // The pool ends its write before the process exits, unless that write is stuck.
      if (this.#clock.now() - this.#writingSinceMs > STUCK_WRITE_MS) return;
    } else if (this.#chunk !== undefined) {
      this.#cancelRetry?.();
      this.#cancelRetry = undefined;
      pending.unshift(this.#chunk);
      this.#chunk = undefined;
    }
    writeBeforeExit(this.#target, Buffer.concat(pending));
  }

  #pump(): void {
    // Not recursive: an event of ours may log, and a target may be done within the call.
    if (this.#pumping) return;
    this.#pumping = true;
    while (this.#writingSinceMs === undefined && this.#cancelRetry === undefined) {
      const chunk = this.#chunk ?? this.#takeChunk();
      if (chunk !== undefined) this.#offer(chunk);
      else if (!this.#reportDropped()) break;
    }
    this.#pumping = false;
    if (this.#idle) this.#onIdle?.();
  }

  get #idle(): boolean {
    return this.#chunk === undefined && this.#queue.length === 0;
  }

  #takeChunk(): Buffer | undefined {
    let lines = 0;
    let bytes = 0;
    for (const line of this.#queue) {
      if (lines > 0 && bytes + line.length > MAX_WRITE_BYTES) break;
      lines++;
      bytes += line.length;
    }
    if (lines === 0) return undefined;
    this.#queuedBytes -= bytes;
    this.#chunkLines = lines;
    this.#chunk = Buffer.concat(this.#queue.splice(0, lines), bytes);
    return this.#chunk;
  }

  #offer(chunk: Buffer): void {
    this.#writingSinceMs = this.#clock.now();
    this.#target.write(chunk, (error, writtenBytes) => {
      this.#writingSinceMs = undefined;
      if (error === null && writtenBytes > 0) this.#advance(chunk, writtenBytes);
      else if (error === null || error.code === "EAGAIN") this.#retryLater();
      else this.#giveUp(error);
      this.#pump();
    });
  }

  #advance(chunk: Buffer, writtenBytes: number): void {
    this.#failing = false;
    this.#chunk = writtenBytes < chunk.length ? chunk.subarray(writtenBytes) : undefined;
  }

  #retryLater(): void {
    this.#cancelRetry = this.#clock.schedule(RETRY_MS, () => {
      this.#cancelRetry = undefined;
      this.#pump();
    });
  }

  #giveUp(error: unknown): void {
    this.#droppedLines += this.#chunkLines;
    this.#chunk = undefined;
    if (this.#failing) return;
    this.#failing = true;
    this.#events.failed(error);
  }

  #reportDropped(): boolean {
    if (this.#droppedLines === this.#reportedLines || this.#failing) return false;
    this.#reportedLines = this.#droppedLines;
    this.#events.dropped(this.#droppedLines);
    return true;
  }

  #idleWithin(timeoutMs: number): Promise<void> {
    if (this.#idle) return Promise.resolve();
    return new Promise((resolve) => {
      const letProcessEnd = keepProcessAlive();
      const finish = () => {
        letProcessEnd();
        resolve();
      };
      const cancel = this.#clock.schedule(timeoutMs, finish);
      this.#onIdle = () => {
        cancel();
        finish();
      };
    });
  }
}

/** Timers of a {@link Clock} do not, and at the very end there may be nothing else that does. */
function keepProcessAlive(): () => void {
  const { port1 } = new MessageChannel();
  port1.ref();
  return () => {
    port1.close();
  };
}

function writeBeforeExit(target: LogTarget, bytes: Buffer): void {
  let rest = bytes;
  for (let retries = 0; rest.length > 0 && retries < EXIT_RETRIES;) {
    try {
      rest = rest.subarray(target.writeSync(rest));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") return;
      retries++;
      block(EXIT_RETRY_MS);
    }
  }
}

/** Stop the whole thread: the loop is about to end, so nobody is left to wait for. */
function block(delayMs: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, delayMs);
}
