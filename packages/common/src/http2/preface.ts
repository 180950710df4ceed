import {
  CLIENT_PREFACE,
  DEFAULT_WINDOW_BYTES,
  Setting,
  settingsFrame,
  windowUpdateFrame,
} from "./frame.ts";
import { Http2Error, Http2ErrorCode } from "./http2-error.ts";
import type { Http2Limits } from "./http2-limits.ts";

/**
 * What we send before anything else: a client's preface, our SETTINGS, and the rest of a connection
 * window that is larger than the one every connection begins with (RFC 9113 section 3.4).
 */
export function prefaceFrames(side: "client" | "server", limits: Http2Limits): Buffer[] {
  const frames: Buffer[] = side === "client" ? [CLIENT_PREFACE] : [];
  frames.push(
    settingsFrame([
      side === "client"
        ? [Setting.ENABLE_PUSH, 0]
        : [Setting.MAX_CONCURRENT_STREAMS, limits.maxStreams],
      [Setting.INITIAL_WINDOW_SIZE, limits.streamWindowBytes],
      [Setting.MAX_FRAME_SIZE, limits.maxFrameBytes],
      [Setting.MAX_HEADER_LIST_SIZE, limits.maxHeaderListBytes],
    ]),
  );
  const extraWindowBytes = limits.connectionWindowBytes - DEFAULT_WINDOW_BYTES;
  if (extraWindowBytes > 0) frames.push(windowUpdateFrame(0, extraWindowBytes));
  return frames;
}

/** Checks what comes before a client's first frame; before a server's comes nothing. */
export class PrefaceReader {
  /** What is still to come. */
  #expected: Buffer;

  /** @param side - Our own. */
  constructor(side: "client" | "server") {
    this.#expected = side === "client" ? Buffer.alloc(0) : CLIENT_PREFACE;
  }

  /**
   * Take the next bytes of the connection. Returns where in `chunk` the frames begin.
   *
   * @throws {Http2Error} This is no HTTP/2.
   */
  read(chunk: Buffer): number {
    const bytes = Math.min(this.#expected.length, chunk.length);
    if (bytes === 0) return 0;
    if (!chunk.subarray(0, bytes).equals(this.#expected.subarray(0, bytes))) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "this port speaks HTTP/2 only");
    }
    this.#expected = this.#expected.subarray(bytes);
    return bytes;
  }
}
