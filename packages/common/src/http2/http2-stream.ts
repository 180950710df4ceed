import type { HeaderList } from "../hpack/header-list.ts";
import { SendQueue } from "../send-queue.ts";
import {
  FRAME_HEADER_BYTES,
  FrameFlag,
  FrameType,
  MAX_WINDOW_BYTES,
  newFrame,
  resetFrame,
  windowUpdateFrame,
  writeFrameHeader,
} from "./frame.ts";
import { headerBlockProblem } from "./header-rules.ts";
import { Http2ErrorCode } from "./http2-error.ts";
import type { Http2Limits } from "./http2-limits.ts";
import type { Http2StreamHandler, StreamClose } from "./http2-stream-handler.ts";
import type { Outbox, SendingStream } from "./outbox.ts";

/** Who keeps the streams of a connection. */
export interface StreamHost {
  /** The stream is over and may be forgotten. */
  release(stream: Http2Stream): void;
}

type StreamState = "open" | "halfClosedLocal" | "halfClosedRemote" | "closed";

const NO_HANDLER: Http2StreamHandler = {
  headers: () => undefined,
  data: () => undefined,
  ended: () => undefined,
  sent: () => undefined,
  drained: () => undefined,
  closed: () => undefined,
};

/** One HTTP/2 stream (RFC 9113 section 5.1), on either side. */
export class Http2Stream implements SendingStream {
  readonly id: number;
  #handler: Http2StreamHandler = NO_HANDLER;

  readonly #limits: Http2Limits;
  readonly #outbox: Outbox;
  readonly #host: StreamHost;
  #state: StreamState = "open";
  #closeReason: StreamClose | undefined;

  readonly #queue = new SendQueue();
  #sendWindowBytes: number;
  #awaitsDrain = false;
  /** Set once {@link end} or {@link finish} was called: what to send behind the queue. */
  #ending: { readonly trailers: HeaderList | undefined; readonly stopPeer: boolean } | undefined;

  /** What the peer may have under way, and how much of that is left. */
  #receiveWindowSizeBytes: number;
  #receiveWindowBytes: number;
  #consumedBytes = 0;
  #finalHeadersSeen: boolean;

  /**
   * @param side - Our own.
   * @param sendWindowBytes - What the peer takes at first.
   */
  constructor(
    id: number,
    side: "client" | "server",
    limits: Http2Limits,
    sendWindowBytes: number,
    outbox: Outbox,
    host: StreamHost,
  ) {
    this.id = id;
    this.#limits = limits;
    this.#outbox = outbox;
    this.#host = host;
    this.#sendWindowBytes = sendWindowBytes;
    this.#receiveWindowSizeBytes = limits.streamWindowBytes;
    this.#receiveWindowBytes = limits.streamWindowBytes;
    // A server's stream begins with the request's headers: whatever follows them is trailers.
    this.#finalHeadersSeen = side === "server";
  }

  /** Bytes written and not yet handed to the socket. */
  get queuedBytes(): number {
    return this.#queue.bytes;
  }

  get isClosed(): boolean {
    return this.#state === "closed";
  }

  /** Whether the peer can still send. */
  get remoteOpen(): boolean {
    return this.#state === "open" || this.#state === "halfClosedLocal";
  }

  /** Response headers; with `endStream` the whole response. At once, ahead of all DATA. */
  sendHeaders(headers: HeaderList, endStream = false): void {
    if (this.#state === "closed" || this.#ending !== undefined) return;
    this.#outbox.sendHeaders(this.id, headers, endStream);
    if (endStream) {
      this.#ending = { trailers: undefined, stopPeer: true };
      this.#localEnd(true);
    }
  }

  /**
   * Queue bytes of the body. They are not copied: the caller leaves them alone from now on.
   *
   * @returns false once {@link Http2Limits.writeHighWaterBytes} wait; `drained` follows.
   */
  write(first: Buffer, second?: Buffer): boolean {
    if (this.#state === "closed" || this.#ending !== undefined) return true;
    this.#queue.push(first);
    if (second !== undefined) this.#queue.push(second);
    this.#outbox.wantsToSend(this);
    if (this.#queue.bytes < this.#limits.writeHighWaterBytes) return true;
    this.#awaitsDrain = true;
    return false;
  }

  /**
   * Put `replacement` in the place of `buffer`, which was written with so many buffers behind it. False, and
   * nothing done, if it has left, be it in part, or nothing more can be written.
   */
  replaceWritten(buffer: Buffer, behind: number, replacement: Buffer): boolean {
    if (this.#state === "closed" || this.#ending !== undefined) return false;
    return this.#queue.replace(buffer, behind, replacement);
  }

  /** Finish sending, behind everything written; the peer may go on. Idempotent. */
  end(): void {
    this.#end({ trailers: undefined, stopPeer: false });
  }

  /**
   * Finish the stream, behind everything written: trailers, and if the peer is still sending, word
   * that nobody listens (RST_STREAM with NO_ERROR, RFC 9113 section 8.1). Idempotent.
   */
  finish(trailers: HeaderList): void {
    this.#end({ trailers, stopPeer: true });
  }

  /** End the stream both ways at once; what waits to be sent is dropped. Idempotent. */
  reset(code: number): void {
    if (this.#state === "closed") return;
    this.#outbox.sendControl(resetFrame(this.id, code));
    this.#close({ kind: "reset", code, byPeer: false });
  }

  /** Report that `bytes` of the received body have been taken: the peer may send as many more. */
  consumed(bytes: number): void {
    this.#consumedBytes += bytes;
    if (this.#consumedBytes * 2 < this.#receiveWindowSizeBytes || !this.remoteOpen) return;
    this.#outbox.sendControl(windowUpdateFrame(this.id, this.#consumedBytes));
    this.#receiveWindowBytes += this.#consumedBytes;
    this.#consumedBytes = 0;
  }

  /** Let the peer have so many bytes more under way, for good. */
  growReceiveWindow(bytes: number): void {
    if (!this.remoteOpen) return;
    this.#outbox.sendControl(windowUpdateFrame(this.id, bytes));
    this.#receiveWindowSizeBytes += bytes;
    this.#receiveWindowBytes += bytes;
  }

  /**
   * Finish the stream at once, dropping what waits to be sent, because the peer has had the last
   * word. Does nothing unless the peer has finished sending and we have not. Idempotent.
   */
  leave(): void {
    if (this.#state !== "halfClosedRemote") return;
    this.#outbox.sendControl(newFrame(0, FrameType.DATA, FrameFlag.END_STREAM, this.id));
    this.#close({ kind: "finished" });
  }

  // What follows is called by the connection.

  /** Who is told what happens. */
  get handler(): Http2StreamHandler {
    return this.#handler;
  }

  /** Tell `handler` from now on; also that the stream is over, if it is already. */
  attach(handler: Http2StreamHandler): void {
    this.#handler = handler;
    if (this.#closeReason !== undefined) handler.closed(this.#closeReason);
  }

  get wants(): "data" | "end" | "window" | "nothing" {
    if (this.#queue.bytes > 0) return this.#sendWindowBytes > 0 ? "data" : "window";
    const canEnd = this.#state === "open" || this.#state === "halfClosedRemote";
    return canEnd && this.#ending !== undefined ? "end" : "nothing";
  }

  nextFrameBytes(windowBytes: number): number {
    // A window may be less than nothing (RFC 9113 section 6.9.2).
    const sendWindowBytes = Math.max(0, Math.min(this.#sendWindowBytes, windowBytes));
    const frameBytes = Math.min(sendWindowBytes, this.#outbox.maxFrameBytes);
    // What leaves uncut the receiver passes on as one piece.
    return this.#queue.bytes > frameBytes ? this.#queue.uncutBytes(frameBytes) : this.#queue.bytes;
  }

  fill(out: Buffer[], bytes: number): void {
    const ending = bytes === this.#queue.bytes ? this.#ending : undefined;
    if (bytes > 0 || ending?.trailers === undefined) {
      const endStream = ending !== undefined && ending.trailers === undefined;
      const header = Buffer.allocUnsafe(FRAME_HEADER_BYTES);
      const flags = endStream ? FrameFlag.END_STREAM : 0;
      writeFrameHeader(header, 0, bytes, FrameType.DATA, flags, this.id);
      out.push(header);
      this.#queue.take(bytes, out);
      this.#sendWindowBytes -= bytes;
    }
    if (ending !== undefined) {
      // Header blocks leave in the order in which they were encoded, so trailers go with the
      // control frames of the next write; this stream has nothing behind them.
      if (ending.trailers !== undefined) this.#outbox.sendHeaders(this.id, ending.trailers, true);
      this.#localEnd(ending.stopPeer);
    }
  }

  /** Tell the owner that something has left, and that there is room again if it waits for that. */
  notifySent(): void {
    if (this.#state === "closed") return;
    this.#handler.sent();
    if (!this.#awaitsDrain) return;
    if (this.#queue.bytes * 2 > this.#limits.writeHighWaterBytes) return;
    this.#awaitsDrain = false;
    this.#handler.drained();
  }

  /** The peer opened the send window. False if the window would overflow. */
  growSendWindow(bytes: number): boolean {
    this.#sendWindowBytes += bytes;
    if (this.#sendWindowBytes > MAX_WINDOW_BYTES) return false;
    if (this.#queue.bytes > 0) this.#outbox.wantsToSend(this);
    return true;
  }

  /** The request is nothing but its headers. Its owner is told later, there being none yet. */
  beginEnded(): void {
    this.#state = "halfClosedRemote";
  }

  /** Account for a DATA frame. False if the peer overran the window or sent after its end. */
  acceptData(flowBytes: number): boolean {
    if (!this.remoteOpen) {
      this.reset(Http2ErrorCode.STREAM_CLOSED);
      return false;
    }
    if (!this.#finalHeadersSeen) {
      this.reset(Http2ErrorCode.PROTOCOL_ERROR);
      return false;
    }
    this.#receiveWindowBytes -= flowBytes;
    if (this.#receiveWindowBytes < 0) {
      this.reset(Http2ErrorCode.FLOW_CONTROL_ERROR);
      return false;
    }
    return true;
  }

  receiveHeaders(headers: HeaderList, endStream: boolean): void {
    if (!this.remoteOpen) {
      this.reset(Http2ErrorCode.STREAM_CLOSED);
      return;
    }
    const kind = this.#finalHeadersSeen ? "trailers" : "response";
    const informational =
      kind === "response" &&
      headers.some(([name, value]) => name === ":status" && /^1\d\d$/.test(value));
    if (
      headerBlockProblem(headers, kind) !== undefined ||
      (kind === "trailers" && !endStream) ||
      (informational && endStream)
    ) {
      this.reset(Http2ErrorCode.PROTOCOL_ERROR);
      return;
    }
    if (informational) return;
    this.#finalHeadersSeen = true;
    this.#handler.headers(headers, endStream);
    if (endStream) this.receiveEnd();
  }

  receiveEnd(): void {
    if (!this.remoteOpen) return;
    const finished = this.#state === "halfClosedLocal";
    if (!finished) this.#state = "halfClosedRemote";
    this.#handler.ended();
    if (finished) this.#close({ kind: "finished" });
  }

  receiveReset(code: number): void {
    this.#close({ kind: "reset", code, byPeer: true });
  }

  connectionLost(error: Error | undefined): void {
    this.#close({ kind: "connection", error });
  }

  #end(ending: { trailers: HeaderList | undefined; stopPeer: boolean }): void {
    if (this.#state === "closed" || this.#ending !== undefined) return;
    this.#ending = ending;
    this.#outbox.wantsToSend(this);
  }

  #localEnd(stopPeer: boolean): void {
    if (this.#state === "open" && stopPeer) {
      this.#outbox.sendControl(resetFrame(this.id, Http2ErrorCode.NO_ERROR));
      this.#close({ kind: "finished" });
    } else if (this.#state === "open") {
      this.#state = "halfClosedLocal";
    } else if (this.#state === "halfClosedRemote") {
      this.#close({ kind: "finished" });
    }
  }

  #close(reason: StreamClose): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#closeReason = reason;
    this.#queue.clear();
    this.#host.release(this);
    this.#handler.closed(reason);
  }
}
