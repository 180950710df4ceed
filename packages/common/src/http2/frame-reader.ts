import { FRAME_HEADER_BYTES, FrameFlag, FrameType } from "./frame.ts";
import { Http2Error, Http2ErrorCode } from "./http2-error.ts";

/** Receives frames in the order of the wire. Any method may throw {@link Http2Error}. */
export interface FrameHandler {
  /** A complete frame other than DATA. `payload` is valid during the call only. */
  frame(type: number, flags: number, streamId: number, payload: Buffer): void;

  /** A DATA frame begins; `flowBytes` (padding included) count against the windows. */
  dataBegin(streamId: number, flowBytes: number): void;

  /** The next bytes of the DATA frame, padding left out. Valid for as long as what was pushed. */
  data(piece: Buffer): void;

  /** The DATA frame is complete. */
  dataEnd(endStream: boolean): void;
}

const EMPTY = Buffer.alloc(0);

/**
 * Cuts what a socket delivers into frames (RFC 9113 section 4.1).
 *
 * DATA is passed on while it arrives, uncopied. Other frames are collected; they are bounded by the
 * largest frame we accept.
 */
export class FrameReader {
  readonly #handler: FrameHandler;
  readonly #maxFrameBytes: number;

  readonly #header = Buffer.alloc(FRAME_HEADER_BYTES);
  #headerBytes = 0;

  /** Payload bytes of the current frame still to come; -1 while its header is incomplete. */
  #remaining = -1;
  #type = 0;
  #flags = 0;
  #streamId = 0;

  /** Padding at the end of the current DATA frame; -1 while its length byte is still to come. */
  #padding = 0;
  #collected: Buffer = EMPTY;
  #collectedBytes = 0;
  #stopped = false;

  constructor(handler: FrameHandler, maxFrameBytes: number) {
    this.#handler = handler;
    this.#maxFrameBytes = maxFrameBytes;
  }

  /** Begin no more frames, not even those that are in the chunk being read. */
  stop(): void {
    this.#stopped = true;
  }

  /** @throws {Http2Error} The connection cannot go on. */
  push(chunk: Buffer, from = 0): void {
    let at = from;
    while (at < chunk.length && !this.#stopped) {
      if (this.#remaining < 0) {
        at = this.#readHeader(chunk, at);
        if (this.#remaining < 0) return;
        this.#begin();
      }
      if (this.#remaining > 0) {
        if (at === chunk.length) return;
        const end = Math.min(chunk.length, at + this.#remaining);
        this.#remaining -= end - at;
        if (this.#type === FrameType.DATA) this.#readData(chunk, at, end);
        else this.#collect(chunk, at, end);
        at = end;
      }
      if (this.#remaining === 0) {
        this.#remaining = -1;
        this.#finish();
      }
    }
  }

  #readHeader(chunk: Buffer, from: number): number {
    let header = chunk;
    let start = from;
    let at = from + FRAME_HEADER_BYTES;
    if (this.#headerBytes > 0 || at > chunk.length) {
      const taken = Math.min(FRAME_HEADER_BYTES - this.#headerBytes, chunk.length - from);
      chunk.copy(this.#header, this.#headerBytes, from, from + taken);
      this.#headerBytes += taken;
      at = from + taken;
      if (this.#headerBytes < FRAME_HEADER_BYTES) return at;
      this.#headerBytes = 0;
      header = this.#header;
      start = 0;
    }
    this.#remaining = (header[start]! << 16) | (header[start + 1]! << 8) | header[start + 2]!;
    this.#type = header[start + 3]!;
    this.#flags = header[start + 4]!;
    this.#streamId = header.readUInt32BE(start + 5) & 0x7fff_ffff;
    return at;
  }

  #begin(): void {
    if (this.#remaining > this.#maxFrameBytes) {
      throw new Http2Error(
        Http2ErrorCode.FRAME_SIZE_ERROR,
        `frame of ${this.#remaining} bytes, at most ${this.#maxFrameBytes} allowed`,
      );
    }
    this.#collectedBytes = 0;
    this.#padding = 0;
    if (this.#type === FrameType.DATA) {
      if ((this.#flags & FrameFlag.PADDED) !== 0) {
        if (this.#remaining === 0) {
          throw new Http2Error(Http2ErrorCode.FRAME_SIZE_ERROR, "padded DATA frame without length");
        }
        this.#padding = -1;
      }
      this.#handler.dataBegin(this.#streamId, this.#remaining);
    }
  }

  #readData(chunk: Buffer, start: number, end: number): void {
    if (this.#padding < 0) {
      this.#padding = chunk[start++]!;
      if (this.#padding > this.#remaining + end - start) {
        throw new Http2Error(
          Http2ErrorCode.PROTOCOL_ERROR,
          "DATA frame with more padding than bytes",
        );
      }
    }
    // The padding is what comes last: leave out what this piece holds of it.
    const payloadEnd = end - Math.max(0, this.#padding - this.#remaining);
    if (payloadEnd > start) this.#handler.data(chunk.subarray(start, payloadEnd));
  }

  #collect(chunk: Buffer, start: number, end: number): void {
    if (this.#remaining === 0 && this.#collectedBytes === 0) {
      this.#collected = chunk.subarray(start, end);
      this.#collectedBytes = end - start;
      return;
    }
    if (this.#collectedBytes === 0) {
      this.#collected = Buffer.allocUnsafeSlow(end - start + this.#remaining);
    }
    chunk.copy(this.#collected, this.#collectedBytes, start, end);
    this.#collectedBytes += end - start;
  }

  #finish(): void {
    if (this.#type === FrameType.DATA) {
      this.#handler.dataEnd((this.#flags & FrameFlag.END_STREAM) !== 0);
      return;
    }
    const payload = this.#collected.subarray(0, this.#collectedBytes);
    this.#collected = EMPTY;
    this.#handler.frame(this.#type, this.#flags, this.#streamId, payload);
  }
}
