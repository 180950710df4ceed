import { Duplex } from "node:stream";
import type { Headers } from "./header-block.ts";

/** What a stream needs of its connection. */
export interface StreamConnection {
  sendData(streamId: number, payload: Buffer, isLast: boolean, done: StreamCallback): void;
  /** The stream is no more; `wasCut` if one of the ends had more to say. */
  streamClosed(streamId: number, wasCut: boolean): void;
}

type StreamCallback = (error?: Error | null) => void;

const HIGH_WATER_BYTES = 256 * 1024;

/** One stream of a SPDY connection. To destroy it resets it. */
export class SpdyStream extends Duplex {
  readonly id: number;
  readonly headers: Headers;
  readonly #connection: StreamConnection;
  #hasRead: (() => void) | undefined;

  constructor(id: number, headers: Headers, connection: StreamConnection) {
    super({ readableHighWaterMark: HIGH_WATER_BYTES, writableHighWaterMark: HIGH_WATER_BYTES });
    this.id = id;
    this.headers = headers;
    this.#connection = connection;
    // Whoever has an interest listens too; one stream's failure must not end the process.
    this.on("error", () => undefined);
  }

  /** Data came. Resolves when there is room for more. */
  async receive(payload: Buffer): Promise<void> {
    if (this.destroyed || this.readableEnded || this.push(payload)) return;
    await new Promise<void>((resolve) => {
      this.#hasRead = resolve;
    });
  }

  receiveEnd(): void {
    if (!this.destroyed) this.push(null);
  }

  override _read(): void {
    this.#hasRead?.();
    this.#hasRead = undefined;
  }

  override _write(payload: Buffer, _encoding: BufferEncoding, done: StreamCallback): void {
    this.#connection.sendData(this.id, payload, false, done);
  }

  override _final(done: StreamCallback): void {
    this.#connection.sendData(this.id, Buffer.alloc(0), true, done);
  }

  override _destroy(error: Error | null, done: StreamCallback): void {
    this._read();
    this.#connection.streamClosed(this.id, !this.readableEnded || !this.writableFinished);
    done(error);
  }
}
