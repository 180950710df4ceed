/** Frame types, flags and settings of HTTP/2 (RFC 9113 sections 6 and 6.5.2). */

export const FrameType = {
  DATA: 0x0,
  HEADERS: 0x1,
  PRIORITY: 0x2,
  RST_STREAM: 0x3,
  SETTINGS: 0x4,
  PUSH_PROMISE: 0x5,
  PING: 0x6,
  GOAWAY: 0x7,
  WINDOW_UPDATE: 0x8,
  CONTINUATION: 0x9,
} as const;

export const FrameFlag = {
  ACK: 0x1,
  END_STREAM: 0x1,
  END_HEADERS: 0x4,
  PADDED: 0x8,
  PRIORITY: 0x20,
} as const;

export const Setting = {
  HEADER_TABLE_SIZE: 0x1,
  ENABLE_PUSH: 0x2,
  MAX_CONCURRENT_STREAMS: 0x3,
  INITIAL_WINDOW_SIZE: 0x4,
  MAX_FRAME_SIZE: 0x5,
  MAX_HEADER_LIST_SIZE: 0x6,
} as const;

/** What a client sends first (RFC 9113 section 3.4). */
export const CLIENT_PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

export const FRAME_HEADER_BYTES = 9;

/** Values in force until the peer's SETTINGS say otherwise. */
export const DEFAULT_WINDOW_BYTES = 65_535;
export const DEFAULT_MAX_FRAME_BYTES = 16_384;

export const MAX_WINDOW_BYTES = 0x7fff_ffff;
export const MAX_STREAM_ID = 0x7fff_ffff;

/** Write the nine bytes that begin a frame. */
export function writeFrameHeader(
  target: Buffer,
  offset: number,
  length: number,
  type: number,
  flags: number,
  streamId: number,
): void {
  target[offset] = length >>> 16;
  target[offset + 1] = length >>> 8;
  target[offset + 2] = length;
  target[offset + 3] = type;
  target[offset + 4] = flags;
  target[offset + 5] = streamId >>> 24;
  target[offset + 6] = streamId >>> 16;
  target[offset + 7] = streamId >>> 8;
  target[offset + 8] = streamId;
}

/** A frame with `length` bytes of payload, still to be filled from {@link FRAME_HEADER_BYTES} on. */
export function newFrame(length: number, type: number, flags: number, streamId: number): Buffer {
  const frame = Buffer.allocUnsafe(FRAME_HEADER_BYTES + length);
  writeFrameHeader(frame, 0, length, type, flags, streamId);
  return frame;
}

export function settingsFrame(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const frame = newFrame(settings.length * 6, FrameType.SETTINGS, 0, 0);
  let at = FRAME_HEADER_BYTES;
  for (const [id, value] of settings) {
    at = frame.writeUInt16BE(id, at);
    at = frame.writeUInt32BE(value, at);
  }
  return frame;
}

export function settingsAckFrame(): Buffer {
  return newFrame(0, FrameType.SETTINGS, FrameFlag.ACK, 0);
}

/** @param payload - Eight bytes; an answer returns those of the question. */
export function pingFrame(payload: Uint8Array, ack: boolean): Buffer {
  const frame = newFrame(8, FrameType.PING, ack ? FrameFlag.ACK : 0, 0);
  frame.set(payload, FRAME_HEADER_BYTES);
  return frame;
}

export function windowUpdateFrame(streamId: number, incrementBytes: number): Buffer {
  const frame = newFrame(4, FrameType.WINDOW_UPDATE, 0, streamId);
  frame.writeUInt32BE(incrementBytes, FRAME_HEADER_BYTES);
  return frame;
}

export function resetFrame(streamId: number, code: number): Buffer {
  const frame = newFrame(4, FrameType.RST_STREAM, 0, streamId);
  frame.writeUInt32BE(code, FRAME_HEADER_BYTES);
  return frame;
}

export function goawayFrame(lastStreamId: number, code: number, debug: string): Buffer {
  const frame = newFrame(8 + Buffer.byteLength(debug), FrameType.GOAWAY, 0, 0);
  frame.writeUInt32BE(lastStreamId, FRAME_HEADER_BYTES);
  frame.writeUInt32BE(code, FRAME_HEADER_BYTES + 4);
  frame.write(debug, FRAME_HEADER_BYTES + 8);
  return frame;
}

/** HEADERS, and CONTINUATION frames where the block is longer than the peer's largest frame. */
export function headersFrames(
  streamId: number,
  block: Buffer,
  endStream: boolean,
  maxFrameBytes: number,
): Buffer[] {
  const frames: Buffer[] = [];
  let at = 0;
  do {
    const part = block.subarray(at, at + maxFrameBytes);
    at += part.length;
    const flags =
      (at === block.length ? FrameFlag.END_HEADERS : 0) |
      (frames.length === 0 && endStream ? FrameFlag.END_STREAM : 0);
    const type = frames.length === 0 ? FrameType.HEADERS : FrameType.CONTINUATION;
    const frame = newFrame(part.length, type, flags, streamId);
    part.copy(frame, FRAME_HEADER_BYTES);
    frames.push(frame);
  } while (at < block.length);
  return frames;
}
