import { Duplex } from "node:stream";
import type { Clock } from "@reachback/common";
import { IdleTimer } from "./idle-timer.ts";

/** What a {@link ConnectionStream} needs of the call that carries it. */
export interface StreamCarrier {
  /** Takes `piece` over. Returns false when enough waits to be sent; `roomAgain` follows. */
  sendData(piece: Buffer): boolean;
  /** Close the connection, behind what was sent; `remoteClosed` follows. */
  sendClose(): void;
  pauseReading(): void;
  resumeReading(): void;
  /** The stream is gone; `error` if it was destroyed for one. */
  release(error: Error | undefined): void;
}

/** Largest payload of a DATA packet; any peer takes it, and nothing waits long behind it. */
const MAX_PAYLOAD_BYTES = 32 * 1024;

type Done = (error?: Error | null) => void;

/**
 * A connection through a gRPC frontend, as a stream.
 *
 * The wire has no half-close: `end` closes the connection behind what was written, and what the
 * endpoint had sent until then still arrives. `finish` comes when the other side has confirmed that,
 * so whoever waits for it (`pipeline` does) knows that the endpoint was given everything.
 *
 * HTTP clients take it for a socket: it has the methods that they call on one.
 */
export class ConnectionStream extends Duplex {
  readonly #carrier: StreamCarrier;
  readonly #idleTimer: IdleTimer;
  /** A write that waits for room. */
  #blockedWrite: { readonly goOn: () => void; readonly done: Done } | undefined;
  /** Completes `end`. */
  #confirmEnd: Done | undefined;
  #isRemoteClosed = false;
  /** Whether the other side's close has ended it, and not its owner. */
  #hasEndedItself = false;

  constructor(carrier: StreamCarrier, clock: Clock) {
    super({ allowHalfOpen: true });
    this.#carrier = carrier;
    this.once("end", () => {
      if (this.writableEnded) return;
      this.#hasEndedItself = true;
      this.end();
    });
    this.#idleTimer = new IdleTimer(clock, () => this.emit("timeout"));
  }

  // As a socket has them

  /** Emit `timeout` after so many milliseconds without a byte either way; 0 for never. */
  setTimeout(timeoutMs: number, onTimeout?: () => void): this {
    this.#idleTimer.set(timeoutMs);
    if (onTimeout !== undefined && timeoutMs > 0) this.once("timeout", onTimeout);
    else if (onTimeout !== undefined) this.off("timeout", onTimeout);
    return this;
  }

  get timeout(): number {
    return this.#idleTimer.timeoutMs;
  }

  /** Without effect here and below: these are properties of the connection to the server. */
  setKeepAlive(): this {
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  // Called by the call

  /** Bytes from the endpoint. */
  receive(piece: Buffer): void {
    this.#idleTimer.touch();
    if (!this.push(piece)) this.#carrier.pauseReading();
  }

  /** The carrier takes bytes again. */
  roomAgain(): void {
    const write = this.#blockedWrite;
    this.#blockedWrite = undefined;
    write?.goOn();
  }

  /** The other side has closed the connection, behind everything it sent; called once. */
  remoteClosed(error: Error | undefined): void {
    this.#isRemoteClosed = true;
    if (error !== undefined) {
      // Not before whoever has just been given the stream had a chance to listen.
      setImmediate(() => {
        this.destroy(error);
      });
      return;
    }
    this.push(null);
    this.roomAgain();
    this.#confirmEnd?.();
  }

  // Duplex

  /**
   * Nobody reads what is written behind the other side's close, so it is dropped. That is no mistake of
   * the writer, who may not know yet: TLS on top says good-bye when its own reader is through.
   */
  override write(chunk: unknown, encoding?: BufferEncoding | Done, done?: Done): boolean {
    const callback = typeof encoding === "function" ? encoding : done;
    if (!this.#hasEndedItself) {
      return typeof encoding === "string"
        ? super.write(chunk, encoding, callback)
        : super.write(chunk, callback);
    }
    if (callback !== undefined) queueMicrotask(callback);
    return true;
  }

  override _read(): void {
    this.#carrier.resumeReading();
  }

  override _write(chunk: Buffer, _encoding: string, done: Done): void {
    this.#idleTimer.touch();
    let at = 0;
    const goOn = () => {
      // Once the other side has closed, nobody reads what is still written.
      while (at < chunk.length && !this.#isRemoteClosed) {
        // Copied, because it is sent later, and the writer may use it again as soon as this is done.
        const piece = Buffer.from(chunk.subarray(at, at + MAX_PAYLOAD_BYTES));
        at += piece.length;
        if (!this.#carrier.sendData(piece)) {
          this.#blockedWrite = { goOn, done };
          return;
        }
      }
      done();
    };
    goOn();
  }

  override _final(done: Done): void {
    if (this.#isRemoteClosed) {
      done();
      return;
    }
    this.#confirmEnd = done;
    this.#carrier.sendClose();
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#idleTimer.stop();
    this.#confirmEnd = undefined;
    this.#carrier.release(error ?? undefined);
    this.#blockedWrite?.done(error ?? new Error("the connection was destroyed"));
    this.#blockedWrite = undefined;
    done(error);
  }
}
