import { Duplex } from "node:stream";

/** What a {@link ConnectionStream} needs of the call that carries it. */
export interface StreamCarrier {
  /** Returns false when enough waits to be sent; `roomAgain` follows. */
  sendData(piece: Buffer): boolean;
  /** Close the connection, behind what was sent. */
  sendClose(): void;
  pauseReading(): void;
  resumeReading(): void;
  /** The stream is gone; `error` if it was destroyed for one. */
  release(error: Error | undefined): void;
}

/** Largest payload of a DATA packet; any peer takes it, and nothing waits long behind it. */
const MAX_PAYLOAD_BYTES = 32 * 1024;

/**
 * A connection through a gRPC frontend, as a stream.
 *
 * The wire has no half-close: `end` closes the connection behind what was written, and what the
 * endpoint had sent until then still arrives. It has the methods of a socket that HTTP clients call
 * on what they are given; they do nothing here.
 */
export class ConnectionStream extends Duplex {
  readonly #carrier: StreamCarrier;
  #resumeWriting: (() => void) | undefined;
  #isRemoteClosed = false;

  constructor(carrier: StreamCarrier) {
    super({ allowHalfOpen: true });
    this.#carrier = carrier;
  }

  setKeepAlive(): this {
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setTimeout(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  // Called by the call

  /** Whether {@link remoteClosed} was called. */
  get hasRemoteClosed(): boolean {
    return this.#isRemoteClosed;
  }

  /** Bytes from the endpoint. */
  receive(piece: Buffer): void {
    if (!this.push(piece)) this.#carrier.pauseReading();
  }

  /** The carrier takes bytes again. */
  roomAgain(): void {
    const resume = this.#resumeWriting;
    this.#resumeWriting = undefined;
    resume?.();
  }

  /** The other side has closed the connection, behind everything it sent. */
  remoteClosed(error: Error | undefined): void {
    this.#isRemoteClosed = true;
    if (error !== undefined) {
      this.destroy(error);
      return;
    }
    this.push(null);
    // Nobody reads what is still written.
    if (!this.writableEnded) this.end();
  }

  // Duplex

  override _read(): void {
    this.#carrier.resumeReading();
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    if (this.#isRemoteClosed) {
      done();
      return;
    }
    let hasRoom = true;
    for (let at = 0; at < chunk.length; at += MAX_PAYLOAD_BYTES) {
      hasRoom = this.#carrier.sendData(chunk.subarray(at, at + MAX_PAYLOAD_BYTES));
    }
    if (hasRoom) done();
    else this.#resumeWriting = done;
  }

  override _final(done: (error?: Error | null) => void): void {
    if (!this.#isRemoteClosed) this.#carrier.sendClose();
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#carrier.release(error ?? undefined);
    done(error);
  }
}
