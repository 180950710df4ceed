import { windowUpdateFrame } from "./frame.ts";
import { Http2Error, Http2ErrorCode } from "./http2-error.ts";
import type { Http2Stream } from "./http2-stream.ts";
import type { Outbox } from "./outbox.ts";
import type { StreamTable } from "./stream-table.ts";

/** DATA frames in a row without a byte and without end (CVE-2019-9518). */
const MAX_EMPTY_DATA_FRAMES = 1_000;

/** The DATA that a connection receives: its window, and the frame that is under way. */
export class IncomingData {
  readonly #windowLimitBytes: number;
  readonly #streams: StreamTable;
  readonly #outbox: Outbox;
  #windowBytes: number;
  /** Received since the peer was last given more. */
  #receivedBytes = 0;
  #emptyFrames = 0;

  /** Whom the current frame is for; `undefined`: nobody. */
  #stream: Http2Stream | undefined;
  /** Bytes of the current frame: all of them, and those of its payload so far. */
  #frameBytes = 0;
  #payloadBytes = 0;

  constructor(windowLimitBytes: number, streams: StreamTable, outbox: Outbox) {
    this.#windowLimitBytes = windowLimitBytes;
    this.#windowBytes = windowLimitBytes;
    this.#streams = streams;
    this.#outbox = outbox;
  }

  /**
   * A frame begins; `flowBytes` (padding included) count against the windows.
   *
   * @throws {Http2Error} The peer overran the connection's window, or the stream never began.
   */
  begin(streamId: number, flowBytes: number): void {
    this.#windowBytes -= flowBytes;
    if (this.#windowBytes < 0) {
      throw new Http2Error(Http2ErrorCode.FLOW_CONTROL_ERROR, "connection window overrun");
    }
    this.#frameBytes = flowBytes;
    this.#payloadBytes = 0;
    this.#receivedBytes += flowBytes;
    if (this.#receivedBytes * 2 >= this.#windowLimitBytes) this.#giveBack();
    const stream = this.#streams.begun(streamId, "DATA");
    this.#stream = stream?.acceptData(flowBytes) === true ? stream : undefined;
  }

  /** The next bytes of the frame, padding left out. */
  piece(piece: Buffer): void {
    this.#payloadBytes += piece.length;
    this.#stream?.handler.data(piece);
  }

  /** The frame is complete. @throws {Http2Error} Too many were empty. */
  end(endStream: boolean): void {
    const stream = this.#stream;
    this.#stream = undefined;
    // The stream's owner gives back the payload; of padding it does not know.
    const paddingBytes = this.#frameBytes - this.#payloadBytes;
    if (paddingBytes > 0) stream?.consumed(paddingBytes);
    if (endStream) {
      stream?.receiveEnd();
      return;
    }
    this.#emptyFrames = this.#frameBytes === 0 ? this.#emptyFrames + 1 : 0;
    if (this.#emptyFrames > MAX_EMPTY_DATA_FRAMES) {
      throw new Http2Error(Http2ErrorCode.ENHANCE_YOUR_CALM, "too many empty DATA frames");
    }
  }

  /** `stream` is over: the rest of its frame is for nobody. */
  forget(stream: Http2Stream): void {
    if (this.#stream === stream) this.#stream = undefined;
  }

  /** Given back on receipt: what bounds memory is the window of each stream. */
  #giveBack(): void {
    this.#outbox.sendControl(windowUpdateFrame(0, this.#receivedBytes));
    this.#windowBytes += this.#receivedBytes;
    this.#receivedBytes = 0;
  }
}
