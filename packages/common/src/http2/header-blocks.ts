import { HpackDecoder } from "../hpack/hpack-decoder.ts";
import { HpackError } from "../hpack/hpack-error.ts";
import type { HeaderList } from "../hpack/header-list.ts";
import { FrameFlag } from "./frame.ts";
import { Http2Error, Http2ErrorCode } from "./http2-error.ts";

/** A header block that has come whole. */
export interface HeaderBlock {
  readonly streamId: number;
  readonly endStream: boolean;
  /** `undefined` if they were larger than we accept. */
  readonly headers: HeaderList | undefined;
}

interface IncompleteBlock {
  readonly streamId: number;
  readonly endStream: boolean;
  readonly parts: Buffer[];
  bytes: number;
}

/** Header blocks are bounded by bytes and by frames (CVE-2024-27316, "CONTINUATION flood"). */
const MAX_CONTINUATION_FRAMES = 64;

/** Puts header blocks together from HEADERS and CONTINUATION (RFC 9113 section 4.3). */
export class HeaderBlocks {
  readonly #maxListBytes: number;
  readonly #decoder: HpackDecoder;
  #block: IncompleteBlock | undefined;

  constructor(maxListBytes: number) {
    this.#maxListBytes = maxListBytes;
    this.#decoder = new HpackDecoder({ maxListBytes });
  }

  /** Whether the next frame has to be a CONTINUATION. */
  get isIncomplete(): boolean {
    return this.#block !== undefined;
  }

  /** The peer knows how large the table may be. */
  settingsAcknowledged(): void {
    this.#decoder.settingsAcknowledged();
  }

  /**
   * A HEADERS frame. Returns the block if that is all of it.
   *
   * @throws {Http2Error}
   */
  begin(flags: number, streamId: number, payload: Buffer): HeaderBlock | undefined {
    let start = 0;
    let end = payload.length;
    if ((flags & FrameFlag.PADDED) !== 0) {
      start = 1;
      end -= payload[0] ?? payload.length;
    }
    if ((flags & FrameFlag.PRIORITY) !== 0) start += 5;
    if (start > end) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "HEADERS shorter than its padding");
    }
    const endStream = (flags & FrameFlag.END_STREAM) !== 0;
    this.#block = { streamId, endStream, parts: [], bytes: 0 };
    return this.#add(this.#block, payload.subarray(start, end), flags);
  }

  /**
   * A CONTINUATION frame. Returns the block if that was the rest of it.
   *
   * @throws {Http2Error}
   */
  continue(flags: number, streamId: number, payload: Buffer): HeaderBlock | undefined {
    if (this.#block?.streamId !== streamId) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS");
    }
    return this.#add(this.#block, payload, flags);
  }

  #add(block: IncompleteBlock, part: Buffer, flags: number): HeaderBlock | undefined {
    block.bytes += part.length;
    // Compressed, a list within the limit is never this long; and the limit of the list is checked
    // by the decoder.
    if (block.bytes > 2 * this.#maxListBytes || block.parts.length > MAX_CONTINUATION_FRAMES) {
      throw new Http2Error(Http2ErrorCode.ENHANCE_YOUR_CALM, "header block too large");
    }
    if ((flags & FrameFlag.END_HEADERS) === 0) {
      block.parts.push(Buffer.from(part));
      return undefined;
    }
    this.#block = undefined;
    const whole = block.parts.length === 0 ? part : Buffer.concat([...block.parts, part]);
    return { streamId: block.streamId, endStream: block.endStream, headers: this.#decode(whole) };
  }

  #decode(block: Buffer): HeaderList | undefined {
    try {
      const decoded = this.#decoder.decode(block);
      return decoded.tooLarge ? undefined : decoded.headers;
    } catch (error) {
      if (!(error instanceof HpackError)) throw error;
      throw new Http2Error(Http2ErrorCode.COMPRESSION_ERROR, error.message);
    }
  }
}
