/** A frame of SPDY/3.1; header blocks are as compressed. Those that say nothing here are `ignored`. */
export type Frame =
  | HeaderFrame
  | {
      readonly type: "data";
      readonly streamId: number;
      readonly isLast: boolean;
      readonly payload: Buffer;
    }
  | { readonly type: "reset"; readonly streamId: number; readonly status: number }
  | { readonly type: "ping"; readonly id: number }
  | { readonly type: "ignored" };

/** `open` is SYN_STREAM, `reply` SYN_REPLY. */
interface HeaderFrame {
  readonly type: "open" | "reply" | "headers";
  readonly streamId: number;
  readonly isLast: boolean;
  readonly block: Buffer;
}

/** Status codes of RST_STREAM. */
export const ResetStatus = { REFUSED_STREAM: 3, CANCEL: 5 } as const;

const VERSION = 3;
const CONTROL_BIT = 0x8000_0000;
const FLAG_FIN = 1;
const HEAD_BYTES = 8;

const TYPE_OPEN = 1;
const TYPE_REPLY = 2;
const TYPE_RESET = 3;
const TYPE_PING = 6;
const TYPE_HEADERS = 8;

/** Larger frames are refused; those of Go's library carry what it read at once, mostly 32 KiB. */
const MAX_FRAME_BYTES = 1024 * 1024;

/**
 * The frames in a stream of bytes.
 *
 * @throws {Error} if something else comes, or the bytes end within a frame.
 */
export async function* readFrames(source: AsyncIterable<Buffer>): AsyncGenerator<Frame> {
  let pending = Buffer.alloc(0);
  for await (const piece of source) {
    pending = Buffer.concat([pending, piece]);
    while (pending.length >= HEAD_BYTES) {
      const length = pending.readUInt32BE(4) & 0xff_ffff;
      if (length > MAX_FRAME_BYTES) throw new Error(`SPDY: a frame of ${length} bytes`);
      const end = HEAD_BYTES + length;
      if (pending.length < end) break;
      yield decodeFrame(pending.subarray(0, end));
      pending = pending.subarray(end);
    }
  }
  if (pending.length > 0) throw new Error("SPDY: the connection ended within a frame");
}

function decodeFrame(frame: Buffer): Frame {
  const word = frame.readUInt32BE(0);
  const isLast = (frame.readUInt8(4) & FLAG_FIN) !== 0;
  if ((word & CONTROL_BIT) === 0) {
    return { type: "data", streamId: word, isLast, payload: frame.subarray(HEAD_BYTES) };
  }
  const version = (word >>> 16) & 0x7fff;
  if (version !== VERSION) throw new Error(`SPDY: a frame of version ${version}`);
  const uint31At = (offset: number) => frame.readUInt32BE(offset) & 0x7fff_ffff;
  switch (word & 0xffff) {
    case TYPE_OPEN:
      // Behind the id: the stream it belongs to, and a priority. Neither matters here.
      return { type: "open", streamId: uint31At(8), isLast, block: frame.subarray(18) };
    case TYPE_REPLY:
      return { type: "reply", streamId: uint31At(8), isLast, block: frame.subarray(12) };
    case TYPE_HEADERS:
      return { type: "headers", streamId: uint31At(8), isLast, block: frame.subarray(12) };
    case TYPE_RESET:
      return { type: "reset", streamId: uint31At(8), status: frame.readUInt32BE(12) };
    case TYPE_PING:
      return { type: "ping", id: frame.readUInt32BE(8) };
    default:
      return { type: "ignored" };
  }
}

export function encodeData(streamId: number, payload: Buffer, isLast: boolean): Buffer {
  return Buffer.concat([head(streamId, isLast, payload.length), payload]);
}

export function encodeOpen(streamId: number, block: Buffer): Buffer {
  const fixed = Buffer.alloc(10);
  fixed.writeUInt32BE(streamId);
  return encodeControl(TYPE_OPEN, Buffer.concat([fixed, block]));
}

export function encodeReply(streamId: number, block: Buffer): Buffer {
  return encodeControl(TYPE_REPLY, Buffer.concat([uint32s(streamId), block]));
}

export function encodeReset(streamId: number, status: number): Buffer {
  return encodeControl(TYPE_RESET, uint32s(streamId, status));
}

export function encodePing(id: number): Buffer {
  return encodeControl(TYPE_PING, uint32s(id));
}

function encodeControl(type: number, body: Buffer): Buffer {
  const word = (CONTROL_BIT | (VERSION << 16) | type) >>> 0;
  return Buffer.concat([head(word, false, body.length), body]);
}

function head(word: number, isLast: boolean, length: number): Buffer {
  return uint32s(word, (((isLast ? FLAG_FIN : 0) << 24) | length) >>> 0);
}

function uint32s(...values: number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  values.forEach((value, index) => bytes.writeUInt32BE(value, 4 * index));
  return bytes;
}
