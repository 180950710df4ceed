import { Duplex } from "node:stream";
import { markAsUntransferable } from "node:worker_threads";
import { UPSTREAM_PIECE_BYTES, recycledMemory } from "@reachback/common";
import type { Clock } from "@reachback/common";
import type { DialOptions } from "./client-options.ts";
import { IdleTimer } from "./idle-timer.ts";

/** What a {@link ConnectionStream} needs of the call that carries it. */
export interface StreamCarrier {
  /** Takes `piece` over. Returns false when enough waits to be sent; `roomAgain` follows. */
  sendData(piece: Buffer): boolean;
  /** Whether the server knows of half-closed connections. */
  readonly hasHalfClose: boolean;
  /**
   * Finish sending, behind what was sent; without half-close that closes the connection, and
   * `remoteClosed` follows.
   */
  sendEnd(): void;
  pauseReading(): void;
  resumeReading(): void;
  /** The stream is gone; `error` if it was destroyed for one. */
  release(error: Error | undefined): void;
}

export interface StreamOptions {
  /** Whether the owner ends the stream itself when the endpoint has. */
  readonly allowHalfOpen: boolean;
  readonly onRead: DialOptions["onRead"];
}

/**
 * Largest piece that is sent as one; nothing waits long behind it. Four of them go into one packet of a tunnel, which is one
 * frame and one turn, and the rest of a write into one with what is written next.
 */
const MAX_PAYLOAD_BYTES = UPSTREAM_PIECE_BYTES / 2;

/** The first byte that a TLS client sends: a record of type handshake (RFC 8446 section 5.1). */
const TLS_HANDSHAKE = 0x16;

type Done = (error?: Error | null) => void;

/**
 * A connection through a gRPC frontend, as a stream. `close` without an error says that the endpoint
 * was given everything, and has finished itself.
 *
 * An upstream server has no half-close: there `end` closes the connection behind what was written,
 * what the endpoint had sent until then still arrives, and `finish` comes when that is confirmed.
 *
 * HTTP clients take it for a socket: it has the methods that they call on one. With TLS on top it does
 * not end by itself when the endpoint has finished, nor close: TLS may still hold bytes that its reader
 * has not come to, drops them when this closes, and ends this when its reader is through.
 */
export class ConnectionStream extends Duplex {
  readonly #carrier: StreamCarrier;
  readonly #idleTimer: IdleTimer;
  readonly #onRead: DialOptions["onRead"];
  /** A write that waits for room. */
  #blockedWrite: { readonly goOn: () => void; readonly done: Done } | undefined;
  /** Completes `end`. */
  #confirmEnd: Done | undefined;
  #isRemoteFinished = false;
  #isRemoteClosed = false;
  #wasWrittenTo = false;
  #carriesTls = false;

  constructor(carrier: StreamCarrier, { allowHalfOpen, onRead }: StreamOptions, clock: Clock) {
    // Not destroyed before the connection is closed, which is when all is delivered.
    super({ allowHalfOpen, autoDestroy: false });
    this.#carrier = carrier;
    this.#idleTimer = new IdleTimer(clock, () => this.emit("timeout"));
    this.#onRead = onRead;
    if (onRead === undefined) return;
    // What comes while the stream is paused comes this way; and so it begins to flow, once whoever dials has it.
    setImmediate(() => this.on("data", onRead));
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

  /** Bytes from the endpoint; with `onRead` in memory that is lent for this call. */
  receive(piece: Buffer): void {
    this.#idleTimer.touch();
    const isFlowing = this.readableFlowing === true && this.readableLength === 0;
    if (this.#onRead === undefined) this.#queue(readersOwn(piece));
    else if (isFlowing && !this.#isRemoteFinished) this.#onRead(piece);
    else this.#queue(Buffer.from(piece));
  }

  /** The carrier takes bytes again. */
  roomAgain(): void {
    const write = this.#blockedWrite;
    this.#blockedWrite = undefined;
    write?.goOn();
  }

  /** The endpoint has finished sending. */
  remoteFinished(): void {
    if (this.#isRemoteFinished) return;
    this.#isRemoteFinished = true;
    this.push(null);
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
    this.remoteFinished();
    this.roomAgain();
    this.#confirmEnd?.();
    this.#destroyWhenRead();
  }

  // Duplex

  override _read(): void {
    this.#carrier.resumeReading();
  }

  override _write(chunk: Buffer, _encoding: string, done: Done): void {
    this.#idleTimer.touch();
    if (!this.#wasWrittenTo) this.#firstWritten(chunk);
    let at = 0;
    const goOn = () => {
      // Once the other side has closed, nobody reads what is still written.
      while (at < chunk.length && !this.#isRemoteClosed) {
        // Copied, because it is sent later, and the writer may use it again as soon as this is done.
        const piece = recycledMemory.copy(chunk.subarray(at, at + MAX_PAYLOAD_BYTES));
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
    this.#carrier.sendEnd();
    if (this.#carrier.hasHalfClose) done();
    else this.#confirmEnd = done;
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#idleTimer.stop();
    this.#confirmEnd = undefined;
    this.#carrier.release(error ?? undefined);
    this.#blockedWrite?.done(error ?? new Error("the connection was destroyed"));
    this.#blockedWrite = undefined;
    done(error);
  }

  #queue(piece: Buffer): void {
    if (!this.push(piece)) this.#carrier.pauseReading();
  }

  #firstWritten(chunk: Buffer): void {
    this.#wasWrittenTo = true;
    this.#carriesTls = chunk[0] === TLS_HANDSHAKE;
    // TLS has asked for it by now, and does itself what it is told.
    if (this.#carriesTls) this.allowHalfOpen = true;
  }

  /** The connection is over; the stream is when its owner has read everything. */
  #destroyWhenRead(): void {
    const destroy = () => {
      // An owner that has not ended it learns from "close" that there is no use any more.
      if (this.#carriesTls && !this.writableFinished) this.once("finish", destroy);
      else setImmediate(() => this.destroy());
    };
    if (this.readableEnded) destroy();
    else this.once("end", destroy);
  }
}

/**
 * A piece that its reader may keep and pass on. One that is most of what was read with it is handed on as it
 * is, 15 % less CPU for whoever downloads much; the rest of that read may be another connection's, so it is not to be
 * moved to another thread, nor to be held by a small part.
 */
function readersOwn(piece: Buffer): Buffer {
  if (piece.length * 2 < piece.buffer.byteLength) return Buffer.from(piece);
  markAsUntransferable(piece.buffer);
  return piece;
}
