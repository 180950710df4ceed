import type { Socket } from "node:net";
import type { Clock } from "../clock.ts";
import { HpackEncoder } from "../hpack/hpack-encoder.ts";
import { HpackError } from "../hpack/hpack-error.ts";
import type { HeaderList } from "../hpack/header-list.ts";
import {
  CLIENT_PREFACE,
  DEFAULT_MAX_FRAME_BYTES,
  DEFAULT_WINDOW_BYTES,
  FrameFlag,
  FrameType,
  MAX_STREAM_ID,
  MAX_WINDOW_BYTES,
  Setting,
  goawayFrame,
  headersFrames,
  pingFrame,
  resetFrame,
  settingsAckFrame,
  settingsFrame,
  windowUpdateFrame,
} from "./frame.ts";
import { FrameReader } from "./frame-reader.ts";
import type { FrameHandler } from "./frame-reader.ts";
import { HeaderBlocks } from "./header-blocks.ts";
import type { HeaderBlock } from "./header-blocks.ts";
import { headerBlockProblem } from "./header-rules.ts";
import { Http2Error, Http2ErrorCode } from "./http2-error.ts";
import { Http2Stream } from "./http2-stream.ts";
import type { Http2StreamHandler, StreamHost } from "./http2-stream.ts";
import { IncomingData } from "./incoming-data.ts";
import { Outbox } from "./outbox.ts";
import type { OutboxOwner } from "./outbox.ts";

/** Every bound of one connection. See LIMITS.md for what each default is for. */
export interface Http2Limits {
  /** Receive window of each stream, in bytes; 65535 or more. */
  readonly streamWindowBytes: number;
  /** Receive window of the connection, in bytes; 65535 or more. Given back as data arrives. */
  readonly connectionWindowBytes: number;
  /** Largest frame that we accept (SETTINGS_MAX_FRAME_SIZE), in bytes: 16384 to 16777215. */
  readonly maxFrameBytes: number;
  /** Streams that the peer may have open at a time; more are refused with REFUSED_STREAM. */
  readonly maxStreams: number;
  /** Largest header list, in bytes as RFC 9113 section 6.5.2 counts them; beyond: status 431. */
  readonly maxHeaderListBytes: number;
  /** Bytes that may wait on one stream before its `write` says stop. */
  readonly writeHighWaterBytes: number;
}

export interface Http2ConnectionHandler {
  /**
   * A request began (servers only). The handler returned is told what follows; `endStream` says
   * that nothing does. May call methods of `stream` at once.
   */
  request(stream: Http2Stream, headers: HeaderList, endStream: boolean): Http2StreamHandler;

  /** The peer takes no new streams. */
  goaway(code: number, debug: string): void;

  /** The connection is over, every stream has been told. Called exactly once. */
  closed(error: Error | undefined): void;
}

/** Largest DATA frame that we send, whatever the peer takes: streams take turns frame by frame. */
const MAX_SENT_FRAME_BYTES = 65 * 1024;

/** How long a socket may take to get rid of its last bytes after the connection has ended. */
const LINGER_MS = 5_000;

/**
 * One HTTP/2 connection (RFC 9113), client or server, on a connected socket that it owns from now
 * on. It knows nothing of gRPC.
 *
 * Received DATA goes to its stream as it arrives, uncopied; how what is sent leaves is up to
 * {@link Outbox}.
 */
export class Http2Connection implements StreamHost, FrameHandler, OutboxOwner {
  peerMaxFrameBytes = DEFAULT_MAX_FRAME_BYTES;
  #lastHeardMs: number;

  readonly #socket: Socket;
  readonly #side: "client" | "server";
  readonly #limits: Http2Limits;
  readonly #clock: Clock;
  readonly #handler: Http2ConnectionHandler;
  readonly #reader: FrameReader;
  readonly #encoder = new HpackEncoder();
  readonly #headerBlocks: HeaderBlocks;
  readonly #incomingData: IncomingData;
  readonly #outbox: Outbox;

  readonly #streams = new Map<number, Http2Stream>();
  #nextStreamId = 1;
  #lastPeerStreamId = 0;
  #peerMaxStreams = Number.POSITIVE_INFINITY;
  #prefaceBytes = 0;
  #settingsSeen = false;
  #peerLeaving = false;
  #leaving = false;
  #closed = false;

  #peerStreamWindowBytes = DEFAULT_WINDOW_BYTES;

  constructor(
    socket: Socket,
    side: "client" | "server",
    limits: Http2Limits,
    clock: Clock,
    handler: Http2ConnectionHandler,
  ) {
    this.#socket = socket;
    this.#side = side;
    this.#limits = limits;
    this.#clock = clock;
    this.#lastHeardMs = clock.now();
    this.#handler = handler;
    this.#reader = new FrameReader(this, limits.maxFrameBytes);
    this.#headerBlocks = new HeaderBlocks(limits.maxHeaderListBytes);
    this.#outbox = new Outbox(socket, this);
    this.#incomingData = new IncomingData(limits.connectionWindowBytes, (frame) => {
      this.sendControl(frame);
    });
    if (side === "client") this.sendControl(CLIENT_PREFACE);
    this.sendControl(
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
    if (extraWindowBytes > 0) this.sendControl(windowUpdateFrame(0, extraWindowBytes));

    socket.on("data", (chunk: Buffer) => {
      this.#read(chunk);
    });
    socket.on("drain", () => {
      this.#outbox.flush();
    });
    socket.on("end", () => {
      this.#finish(undefined);
    });
    socket.on("error", (error) => {
      this.#finish(error);
    });
    socket.on("close", () => {
      this.#finish(undefined);
    });
    // A socket that failed on its way here has told its last listener already.
    if (socket.closed) {
      setImmediate(() => {
        this.#finish(socket.errored ?? undefined);
      });
    }
  }

  /** When the peer was last heard of, in the clock's milliseconds. */
  get lastHeardMs(): number {
    return this.#lastHeardMs;
  }

  get streamCount(): number {
    return this.#streams.size;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** Whether the peer has completed its half of the preface (RFC 9113 section 3.4). */
  get established(): boolean {
    return this.#settingsSeen;
  }

  /** Whether {@link request} may be called: not leaving, and below the peer's stream limit. */
  get canRequest(): boolean {
    return (
      !this.#closed &&
      !this.#leaving &&
      !this.#peerLeaving &&
      this.#streams.size < this.#peerMaxStreams &&
      this.#nextStreamId <= MAX_STREAM_ID
    );
  }

  /**
   * Send a request (clients only; see {@link canRequest}); the body follows through the stream.
   * Where the connection is over already, the stream is told so a moment later.
   */
  request(headers: HeaderList, handler: Http2StreamHandler): Http2Stream {
    const stream = this.#newStream(this.#nextStreamId);
    this.#nextStreamId += 2;
    stream.attach(handler);
    this.sendHeaders(stream.id, headers, false);
    if (this.#closed) {
      setImmediate(() => {
        stream.connectionLost(undefined);
      });
    }
    return stream;
  }

  /** Ask the peer for a sign of life: its answer moves {@link lastHeardMs}. */
  ping(): void {
    this.sendControl(pingFrame(Buffer.alloc(8), false));
  }

  /** Take no new streams, and end the connection once those that are open are over. Idempotent. */
  close(): void {
    if (this.#closed) return;
    if (!this.#leaving) {
      this.#leaving = true;
      this.sendControl(goawayFrame(this.#lastPeerStreamId, Http2ErrorCode.NO_ERROR, ""));
    }
    this.#endIfDone();
  }

  /** Tell the peer why and end the connection with all its streams at once. Idempotent. */
  abort(code: number, reason: string): void {
    if (this.#closed) return;
    this.#outbox.sendLast(goawayFrame(this.#lastPeerStreamId, code, reason));
    this.#endSocket();
    this.#finish(code === Http2ErrorCode.NO_ERROR ? undefined : new Http2Error(code, reason));
  }

  /** End the connection without a word; `error` is why, for its streams. Idempotent. */
  destroy(error?: Error): void {
    this.#finish(error);
  }

  // StreamHost

  sendControl(frame: Buffer): void {
    if (this.#closed) return;
    this.#outbox.sendControl(frame);
  }

  sendHeaders(streamId: number, headers: HeaderList, endStream: boolean): void {
    const block = this.#encoder.encode(headers);
    for (const frame of headersFrames(streamId, block, endStream, this.peerMaxFrameBytes)) {
      this.sendControl(frame);
    }
  }

  wantsToSend(stream: Http2Stream): void {
    this.#outbox.wantsToSend(stream);
  }

  release(stream: Http2Stream): void {
    this.#streams.delete(stream.id);
    this.#outbox.forget(stream);
    this.#incomingData.forget(stream);
    // Not here and now: the stream's last frame may not be written yet, nor its owner told.
    if (this.#leaving) this.#outbox.schedule();
  }

  // OutboxOwner

  controlOverflowed(): void {
    this.#finish(new Http2Error(Http2ErrorCode.ENHANCE_YOUR_CALM, "the peer reads no answers"));
  }

  flushed(): void {
    this.#endIfDone();
  }

  // Receiving

  #read(chunk: Buffer): void {
    if (this.#closed) return;
    this.#lastHeardMs = this.#clock.now();
    try {
      this.#reader.push(chunk, this.#readPreface(chunk));
    } catch (error) {
      if (error instanceof Http2Error) {
        this.abort(error.code, error.message);
      } else if (error instanceof HpackError) {
        this.abort(Http2ErrorCode.COMPRESSION_ERROR, error.message);
      } else {
        throw error;
      }
    }
  }

  /** Check the client's preface; returns where in `chunk` the frames begin. */
  #readPreface(chunk: Buffer): number {
    if (this.#side === "client" || this.#prefaceBytes === CLIENT_PREFACE.length) return 0;
    const bytes = Math.min(CLIENT_PREFACE.length - this.#prefaceBytes, chunk.length);
    const expected = CLIENT_PREFACE.subarray(this.#prefaceBytes, this.#prefaceBytes + bytes);
    if (!chunk.subarray(0, bytes).equals(expected)) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "this port speaks HTTP/2 only");
    }
    this.#prefaceBytes += bytes;
    return bytes;
  }

  frame(type: number, flags: number, streamId: number, payload: Buffer): void {
    if (this.#closed) return;
    if (!this.#settingsSeen && (type !== FrameType.SETTINGS || (flags & FrameFlag.ACK) !== 0)) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS");
    }
    if (this.#headerBlocks.isIncomplete && type !== FrameType.CONTINUATION) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "a header block was interrupted");
    }
    switch (type) {
      case FrameType.HEADERS:
        this.#headersFrame(flags, streamId, payload);
        return;
      case FrameType.CONTINUATION:
        this.#headerBlock(this.#headerBlocks.continue(flags, streamId, payload));
        return;
      case FrameType.RST_STREAM:
        this.#resetFrame(streamId, payload);
        return;
      case FrameType.SETTINGS:
        this.#settingsFrame(flags, streamId, payload);
        return;
      case FrameType.PING:
        this.#pingFrame(flags, streamId, payload);
        return;
      case FrameType.GOAWAY:
        this.#goawayFrame(streamId, payload);
        return;
      case FrameType.WINDOW_UPDATE:
        this.#windowUpdateFrame(streamId, payload);
        return;
      case FrameType.PRIORITY:
        // Deprecated (RFC 9113 section 5.3): checked for length, otherwise ignored.
        requireLength(payload, 5, "PRIORITY");
        requireStream(streamId, "PRIORITY");
        return;
      case FrameType.PUSH_PROMISE:
        throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE was not allowed");
      default:
        // Frames of unknown type are ignored (RFC 9113 section 4.1).
        return;
    }
  }

  dataBegin(streamId: number, flowBytes: number): void {
    if (this.#closed) return;
    if (!this.#settingsSeen || this.#headerBlocks.isIncomplete || streamId === 0) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "DATA where it may not be");
    }
    this.#incomingData.begin(flowBytes);
    this.#incomingData.attach(this.#knownStream(streamId, "DATA"));
  }

  data(_streamId: number, piece: Buffer): void {
    this.#incomingData.piece(piece);
  }

  dataEnd(_streamId: number, endStream: boolean): void {
    this.#incomingData.end(endStream);
  }

  /** The stream of a frame, `undefined` if it is over. @throws {Http2Error} if it never began. */
  #knownStream(streamId: number, frame: string): Http2Stream | undefined {
    const stream = this.#streams.get(streamId);
    if (stream === undefined && this.#isIdle(streamId)) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, `${frame} on a stream that never began`);
    }
    return stream;
  }

  #isIdle(streamId: number): boolean {
    const ours = (streamId % 2 === 1) === (this.#side === "client");
    return streamId >= (ours ? this.#nextStreamId : this.#lastPeerStreamId + 1);
  }

  #headersFrame(flags: number, streamId: number, payload: Buffer): void {
    // Clients open odd streams, and servers never open any.
    if (streamId % 2 === 0 || (this.#side === "client" && this.#isIdle(streamId))) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, `HEADERS on stream ${streamId}`);
    }
    this.#headerBlock(this.#headerBlocks.begin(flags, streamId, payload));
  }

  /** @param block - `undefined` while it is not complete. */
  #headerBlock(block: HeaderBlock | undefined): void {
    if (block === undefined) return;
    const { streamId, endStream, headers } = block;
    const stream = this.#streams.get(streamId);
    if (stream !== undefined) {
      if (headers === undefined) stream.reset(Http2ErrorCode.ENHANCE_YOUR_CALM);
      else stream.receiveHeaders(headers, endStream);
    } else if (this.#isIdle(streamId)) {
      this.#newRequest(streamId, headers, endStream);
    }
    // Otherwise trailers of a stream that we have ended: decoded for the table's sake only.
  }

  /** @param headers - `undefined` if they were larger than we accept. */
  #newRequest(streamId: number, headers: HeaderList | undefined, endStream: boolean): void {
    this.#lastPeerStreamId = streamId;
    if (this.#leaving || this.#streams.size >= this.#limits.maxStreams) {
      this.sendControl(resetFrame(streamId, Http2ErrorCode.REFUSED_STREAM));
      return;
    }
    if (headers === undefined) {
      this.sendHeaders(streamId, [[":status", "431"]], true);
      if (!endStream) this.sendControl(resetFrame(streamId, Http2ErrorCode.NO_ERROR));
      return;
    }
    if (headerBlockProblem(headers, "request") !== undefined) {
      this.sendControl(resetFrame(streamId, Http2ErrorCode.PROTOCOL_ERROR));
      return;
    }
    const stream = this.#newStream(streamId);
    if (endStream) stream.beginEnded();
    stream.attach(this.#handler.request(stream, headers, endStream));
    if (endStream && !stream.isClosed) stream.handler.ended();
  }

  #newStream(streamId: number): Http2Stream {
    const stream = new Http2Stream(
      streamId,
      this,
      {
        writeHighWaterBytes: this.#limits.writeHighWaterBytes,
        receiveWindowBytes: this.#limits.streamWindowBytes,
      },
      this.#peerStreamWindowBytes,
      this.#side,
    );
    this.#streams.set(streamId, stream);
    return stream;
  }

  #resetFrame(streamId: number, payload: Buffer): void {
    requireLength(payload, 4, "RST_STREAM");
    requireStream(streamId, "RST_STREAM");
    this.#knownStream(streamId, "RST_STREAM")?.receiveReset(payload.readUInt32BE(0));
  }

  #settingsFrame(flags: number, streamId: number, payload: Buffer): void {
    if (streamId !== 0) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "SETTINGS on a stream");
    }
    if ((flags & FrameFlag.ACK) !== 0) {
      requireLength(payload, 0, "SETTINGS acknowledgement");
      this.#headerBlocks.settingsAcknowledged();
      return;
    }
    if (payload.length % 6 !== 0) {
      throw new Http2Error(Http2ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of a broken length");
    }
    for (let at = 0; at < payload.length; at += 6) {
      this.#applySetting(payload.readUInt16BE(at), payload.readUInt32BE(at + 2));
    }
    this.#settingsSeen = true;
    this.sendControl(settingsAckFrame());
  }

  #applySetting(id: number, value: number): void {
    switch (id) {
      case Setting.HEADER_TABLE_SIZE:
        this.#encoder.setMaxTableBytes(value);
        return;
      case Setting.ENABLE_PUSH:
        if (value > 1) throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "bad ENABLE_PUSH");
        return;
      case Setting.MAX_CONCURRENT_STREAMS:
        this.#peerMaxStreams = value;
        return;
      case Setting.INITIAL_WINDOW_SIZE: {
        if (value > MAX_WINDOW_BYTES) {
          throw new Http2Error(Http2ErrorCode.FLOW_CONTROL_ERROR, "bad INITIAL_WINDOW_SIZE");
        }
        const growthBytes = value - this.#peerStreamWindowBytes;
        this.#peerStreamWindowBytes = value;
        for (const stream of this.#streams.values()) {
          if (!stream.growSendWindow(growthBytes)) {
            throw new Http2Error(Http2ErrorCode.FLOW_CONTROL_ERROR, "stream window overflow");
          }
        }
        return;
      }
      case Setting.MAX_FRAME_SIZE:
        if (value < DEFAULT_MAX_FRAME_BYTES || value > 0xff_ffff) {
          throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "bad MAX_FRAME_SIZE");
        }
        this.peerMaxFrameBytes = Math.min(value, MAX_SENT_FRAME_BYTES);
        return;
      default:
        return;
    }
  }

  #pingFrame(flags: number, streamId: number, payload: Buffer): void {
    requireLength(payload, 8, "PING");
    if (streamId !== 0) throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "PING on a stream");
    if ((flags & FrameFlag.ACK) === 0) this.sendControl(pingFrame(payload, true));
  }

  #goawayFrame(streamId: number, payload: Buffer): void {
    if (streamId !== 0) throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "GOAWAY on a stream");
    if (payload.length < 8) {
      throw new Http2Error(Http2ErrorCode.FRAME_SIZE_ERROR, "GOAWAY of a broken length");
    }
    this.#peerLeaving = true;
    const lastStreamId = payload.readUInt32BE(0) & 0x7fff_ffff;
    for (const stream of this.#streams.values()) {
      const ours = (stream.id % 2 === 1) === (this.#side === "client");
      if (ours && stream.id > lastStreamId) stream.receiveReset(Http2ErrorCode.REFUSED_STREAM);
    }
    this.#handler.goaway(payload.readUInt32BE(4), payload.toString("latin1", 8));
  }

  #windowUpdateFrame(streamId: number, payload: Buffer): void {
    requireLength(payload, 4, "WINDOW_UPDATE");
    const bytes = payload.readUInt32BE(0) & 0x7fff_ffff;
    if (streamId === 0) {
      if (bytes === 0) {
        throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "bad WINDOW_UPDATE");
      }
      if (!this.#outbox.growWindow(bytes)) {
        throw new Http2Error(Http2ErrorCode.FLOW_CONTROL_ERROR, "bad WINDOW_UPDATE");
      }
      return;
    }
    const stream = this.#knownStream(streamId, "WINDOW_UPDATE");
    if (bytes === 0) stream?.reset(Http2ErrorCode.PROTOCOL_ERROR);
    else if (stream?.growSendWindow(bytes) === false)
      stream.reset(Http2ErrorCode.FLOW_CONTROL_ERROR);
  }

  // Ending

  #endIfDone(): void {
    if (!this.#leaving || this.#closed || this.#streams.size > 0 || this.#outbox.hasControl) return;
    this.#endSocket();
    this.#finish(undefined);
  }

  /** Let the last bytes leave before the socket goes, but not for ever. */
  #endSocket(): void {
    this.#socket.end();
    const cancel = this.#clock.schedule(LINGER_MS, () => {
      this.#socket.destroy();
    });
    this.#socket.once("close", cancel);
  }

  #finish(error: Error | undefined): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#outbox.stop();
    for (const stream of [...this.#streams.values()]) stream.connectionLost(error);
    // After end() the socket is destroyed once the last bytes have left; otherwise now.
    if (!this.#socket.writableEnded) this.#socket.destroy();
    this.#handler.closed(error);
  }
}

function requireLength(payload: Buffer, bytes: number, frame: string): void {
  if (payload.length !== bytes) {
    throw new Http2Error(Http2ErrorCode.FRAME_SIZE_ERROR, `${frame} of ${payload.length} bytes`);
  }
}

function requireStream(streamId: number, frame: string): void {
  if (streamId === 0) {
    throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, `${frame} on the connection`);
  }
}
