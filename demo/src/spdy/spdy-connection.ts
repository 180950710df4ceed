import type { Duplex } from "node:stream";
import {
  encodeData,
  encodePing,
  encodeReply,
  encodeReset,
  readFrames,
  ResetStatus,
} from "./frames.ts";
import type { Frame } from "./frames.ts";
import { HeaderCompressor, HeaderDecompressor } from "./header-block.ts";
import { SpdyStream } from "./spdy-stream.ts";
import type { StreamConnection } from "./spdy-stream.ts";

const MAX_STREAMS = 4096;

/**
 * The server's end of a SPDY/3.1 connection, as far as Kubernetes uses SPDY: the client opens
 * streams, which are accepted at once.
 *
 * There are no windows: the library that all Kubernetes programs use ignores WINDOW_UPDATE and never
 * sends one. Who does not read a stream holds up the connection.
 */
export class SpdyConnection implements StreamConnection {
  /** Resolves when the connection is gone; its streams have been destroyed by then. */
  readonly closed: Promise<void>;
  readonly #socket: Duplex;
  readonly #onStream: (stream: SpdyStream) => void;
  readonly #streams = new Map<number, SpdyStream>();
  readonly #compressor = new HeaderCompressor();
  readonly #decompressor = new HeaderDecompressor();
  #lastStreamId = 0;

  /** @param onStream - Called with each stream the client opens. */
  constructor(socket: Duplex, onStream: (stream: SpdyStream) => void) {
    this.#socket = socket;
    this.#onStream = onStream;
    socket.on("error", () => undefined);
    this.closed = this.#run();
  }

  /**
   * Let the client end it, or do so if it takes longer than `graceMs`. The library that kubectl uses
   * drops what it has not handed on yet when a server hangs up.
   */
  close(graceMs = 10_000): void {
    const timer = setTimeout(() => this.#socket.end(), graceMs).unref();
    void this.closed.then(() => {
      clearTimeout(timer);
    });
  }

  sendData(
    streamId: number,
    payload: Buffer,
    isLast: boolean,
    done: (error?: Error | null) => void,
  ): void {
    this.#socket.write(encodeData(streamId, payload, isLast), done);
  }

  streamClosed(streamId: number, wasCut: boolean): void {
    if (!this.#streams.delete(streamId)) return;
    if (wasCut) this.#send(encodeReset(streamId, ResetStatus.CANCEL));
  }

  async #run(): Promise<void> {
    let failure: unknown;
    try {
      for await (const frame of readFrames(this.#socket)) await this.#receive(frame);
    } catch (error) {
      failure = error;
    }
    const reason = failure instanceof Error ? failure : new Error("the SPDY connection has ended");
    for (const stream of this.#streams.values()) stream.destroy(reason);
    this.#socket.destroy();
  }

  async #receive(frame: Frame): Promise<void> {
    switch (frame.type) {
      case "open":
        this.#open(frame.streamId, frame.block, frame.isLast);
        return;
      case "reply":
      case "headers":
        // What they say is of no use, but the next block refers to it.
        this.#decompressor.decompress(frame.block);
        return;
      case "data": {
        const stream = this.#streams.get(frame.streamId);
        if (frame.payload.length > 0) await stream?.receive(frame.payload);
        if (frame.isLast) stream?.receiveEnd();
        return;
      }
      case "reset": {
        const stream = this.#streams.get(frame.streamId);
        this.#streams.delete(frame.streamId);
        stream?.destroy(new Error(`the client reset the stream (status ${frame.status})`));
        return;
      }
      case "ping":
        this.#send(encodePing(frame.id));
        return;
      case "ignored":
        return;
    }
  }

  #open(streamId: number, block: Buffer, isLast: boolean): void {
    const headers = this.#decompressor.decompress(block);
    if (streamId <= this.#lastStreamId) throw new Error(`SPDY: stream ${streamId} out of order`);
    this.#lastStreamId = streamId;
    if (this.#streams.size >= MAX_STREAMS) {
      this.#send(encodeReset(streamId, ResetStatus.REFUSED_STREAM));
      return;
    }
    const stream = new SpdyStream(streamId, headers, this);
    this.#streams.set(streamId, stream);
    this.#send(encodeReply(streamId, this.#compressor.compress({})));
    if (isLast) stream.receiveEnd();
    this.#onStream(stream);
  }

  #send(frame: Buffer): void {
    if (this.#socket.writable) this.#socket.write(frame);
  }
}
