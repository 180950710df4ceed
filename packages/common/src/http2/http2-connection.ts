import type { Socket } from "node:net";
import type { Clock } from "../clock.ts";
import { HpackDecoder } from "../hpack/hpack-decoder.ts";
import { HpackEncoder } from "../hpack/hpack-encoder.ts";
import { HpackError } from "../hpack/hpack-error.ts";
import type { HeaderList } from "../hpack/header-list.ts";
import { writeTogether } from "../net/write-together.ts";
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
import { headerBlockProblem } from "./header-rules.ts";
import { Http2Error, Http2ErrorCode } from "./http2-error.ts";
import { Http2Stream } from "./http2-stream.ts";
import type { Http2StreamHandler, StreamHost } from "./http2-stream.ts";

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

/** Most bytes handed to the socket in one write. */
const MAX_BATCH_BYTES = 256 * 1024;

/** Largest DATA frame that we send, whatever the peer takes: streams take turns frame by frame. */
const MAX_SENT_FRAME_BYTES = 65 * 1024;

/**
 * Control frames that may wait for a peer that does not read. A peer that makes us owe it more
 * (answers to PING and SETTINGS, RST_STREAM) is flooding us (CVE-2019-9512, -9514, -9515).
 */
const MAX_CONTROL_BYTES = 1024 * 1024;

/** How long a socket may take to get rid of its last bytes after the connection has ended. */
const LINGER_MS = 5_000;

/** Header blocks are bounded by bytes and by frames (CVE-2024-27316, "CONTINUATION flood"). */
const MAX_CONTINUATION_FRAMES = 64;

/** DATA frames in a row without a byte and without end (CVE-2019-9518). */
const MAX_EMPTY_DATA_FRAMES = 1_000;

/**
 * One HTTP/2 connection (RFC 9113), client or server, on a connected socket that it owns from now
 * on. It knows nothing of gRPC.
 *
 * What it does beyond framing, and why it is here: received DATA goes to its stream as it arrives,
 * uncopied; everything sent within one turn of the event loop leaves in one write; the socket's
 * back-pressure stops it from taking more than {@link MAX_BATCH_BYTES} from its streams; control
 * frames go ahead of DATA, streams take turns frame by frame.
 */
export class Http2Connection implements StreamHost, FrameHandler {
  peerMaxFrameBytes = DEFAULT_MAX_FRAME_BYTES;
  #lastHeardMs: number;

  readonly #socket: Socket;
  readonly #side: "client" | "server";
  readonly #limits: Http2Limits;
  readonly #clock: Clock;
  readonly #handler: Http2ConnectionHandler;
  readonly #reader: FrameReader;
  readonly #encoder = new HpackEncoder();
  readonly #decoder: HpackDecoder;

  readonly #streams = new Map<number, Http2Stream>();
  #nextStreamId = 1;
  #lastPeerStreamId = 0;
  #peerMaxStreams = Number.POSITIVE_INFINITY;
  #prefaceBytes = 0;
  #settingsSeen = false;
  #peerLeaving = false;
  #leaving = false;
  #closed = false;

  #control: Buffer[] = [];
  #controlBytes = 0;
  readonly #sending = new Set<Http2Stream>();
  #flushScheduled = false;
  #sendWindowBytes = DEFAULT_WINDOW_BYTES;
  #peerStreamWindowBytes = DEFAULT_WINDOW_BYTES;

  #receiveWindowBytes: number;
  #receivedBytes = 0;
  #emptyDataFrames = 0;
  #dataStream: Http2Stream | undefined;
  /** Bytes of the current DATA frame: all of them, and those of its payload so far. */
  #dataFrameBytes = 0;
  #dataPayloadBytes = 0;
  #headerBlock:
    { streamId: number; endStream: boolean; parts: Buffer[]; bytes: number } | undefined;

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
    this.#decoder = new HpackDecoder({ maxListBytes: limits.maxHeaderListBytes });
    this.#receiveWindowBytes = limits.connectionWindowBytes;
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
      this.#flush();
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
    this.#control.push(goawayFrame(this.#lastPeerStreamId, code, reason));
    this.#write(this.#control);
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
    this.#control.push(frame);
    this.#controlBytes += frame.length;
    if (this.#controlBytes > MAX_CONTROL_BYTES) {
      this.#finish(new Http2Error(Http2ErrorCode.ENHANCE_YOUR_CALM, "the peer reads no answers"));
    }
    this.#scheduleFlush();
  }

  sendHeaders(streamId: number, headers: HeaderList, endStream: boolean): void {
    const block = this.#encoder.encode(headers);
    for (const frame of headersFrames(streamId, block, endStream, this.peerMaxFrameBytes)) {
      this.sendControl(frame);
    }
  }

  wantsToSend(stream: Http2Stream): void {
    this.#sending.add(stream);
    this.#scheduleFlush();
  }

  release(stream: Http2Stream): void {
    this.#streams.delete(stream.id);
    this.#sending.delete(stream);
    if (this.#dataStream === stream) this.#dataStream = undefined;
    // Not here and now: the stream's last frame may not be written yet, nor its owner told.
    if (this.#leaving) this.#scheduleFlush();
  }

  // Sending

  #scheduleFlush(): void {
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    // After the poll phase: what all sockets delivered in this turn of the loop leaves together.
    setImmediate(() => {
      this.#flushScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    // While the socket has not taken the last batch, everything waits here; "drain" comes back.
    if (this.#closed || this.#socket.writableNeedDrain) return;
    const out = this.#control;
    this.#control = [];
    this.#controlBytes = 0;
    const served = this.#fillFromStreams(out);
    // A stream that came to its end may have ended the connection with it.
    if (this.isClosed) return;
    this.#write(out);
    for (const stream of served) stream.notifySent();
    if (this.#sendWindowBytes > 0 && this.#sending.size > 0) this.#scheduleFlush();
    this.#endIfDone();
  }

  /** One frame from each stream in turn, until the batch is full or nobody can send. */
  #fillFromStreams(out: Buffer[]): Set<Http2Stream> {
    const served = new Set<Http2Stream>();
    let batchBytes = 0;
    /** Streams in a row that wait for the connection's window: once all do, nothing can go. */
    let waiting = 0;
    // A Set's iterator also comes to what is added behind it, so this goes round and round.
    for (const stream of this.#sending) {
      if (waiting >= this.#sending.size || batchBytes >= MAX_BATCH_BYTES) break;
      this.#sending.delete(stream);
      const wants = stream.wants;
      // A stream without a window of its own comes back when the peer opens it.
      if (wants === "nothing" || wants === "window") continue;
      if (wants === "data" && this.#sendWindowBytes === 0) {
        this.#sending.add(stream);
        waiting++;
        continue;
      }
      const bytes = stream.fill(out, this.#sendWindowBytes);
      this.#sendWindowBytes -= bytes;
      batchBytes += bytes;
      waiting = 0;
      served.add(stream);
      if (stream.wants === "data" || stream.wants === "end") this.#sending.add(stream);
    }
    return served;
  }

  #write(out: readonly Buffer[]): void {
    if (out.length > 0) writeTogether(this.#socket, out);
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
    if (this.#headerBlock !== undefined && type !== FrameType.CONTINUATION) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "a header block was interrupted");
    }
    switch (type) {
      case FrameType.HEADERS:
        this.#headersFrame(flags, streamId, payload);
        return;
      case FrameType.CONTINUATION:
        this.#continuationFrame(flags, streamId, payload);
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
    if (!this.#settingsSeen || this.#headerBlock !== undefined || streamId === 0) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "DATA where it may not be");
    }
    this.#receiveWindowBytes -= flowBytes;
    if (this.#receiveWindowBytes < 0) {
      throw new Http2Error(Http2ErrorCode.FLOW_CONTROL_ERROR, "connection window overrun");
    }
    this.#dataFrameBytes = flowBytes;
    this.#dataPayloadBytes = 0;
    this.#receivedBytes += flowBytes;
    if (this.#receivedBytes * 2 >= this.#limits.connectionWindowBytes) {
      // Given back on receipt: what bounds memory is the window of each stream.
      this.sendControl(windowUpdateFrame(0, this.#receivedBytes));
      this.#receiveWindowBytes += this.#receivedBytes;
      this.#receivedBytes = 0;
    }
    const stream = this.#knownStream(streamId, "DATA");
    this.#dataStream = stream?.acceptData(flowBytes) === true ? stream : undefined;
  }

  data(_streamId: number, piece: Buffer): void {
    this.#dataPayloadBytes += piece.length;
    this.#dataStream?.handler.data(piece);
  }

  dataEnd(_streamId: number, endStream: boolean): void {
    const stream = this.#dataStream;
    this.#dataStream = undefined;
    // The stream's owner gives back the payload; of padding it does not know.
    const paddingBytes = this.#dataFrameBytes - this.#dataPayloadBytes;
    if (paddingBytes > 0) stream?.consumed(paddingBytes);
    if (endStream) stream?.receiveEnd();
    else this.#countIfEmpty(this.#dataFrameBytes);
  }

  #countIfEmpty(frameBytes: number): void {
    this.#emptyDataFrames = frameBytes === 0 ? this.#emptyDataFrames + 1 : 0;
    if (this.#emptyDataFrames > MAX_EMPTY_DATA_FRAMES) {
      throw new Http2Error(Http2ErrorCode.ENHANCE_YOUR_CALM, "too many empty DATA frames");
    }
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
    // Clients open odd streams, and servers never open any.
    if (streamId % 2 === 0 || (this.#side === "client" && this.#isIdle(streamId))) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, `HEADERS on stream ${streamId}`);
    }
    const endStream = (flags & FrameFlag.END_STREAM) !== 0;
    this.#headerBlock = { streamId, endStream, parts: [], bytes: 0 };
    this.#headerPart(payload.subarray(start, end), (flags & FrameFlag.END_HEADERS) !== 0);
  }

  #continuationFrame(flags: number, streamId: number, payload: Buffer): void {
    if (this.#headerBlock?.streamId !== streamId) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS");
    }
    this.#headerPart(payload, (flags & FrameFlag.END_HEADERS) !== 0);
  }

  #headerPart(part: Buffer, complete: boolean): void {
    const block = this.#headerBlock!;
    block.bytes += part.length;
    // Compressed, a list within the limit is never this long; and the limit of the list is checked
    // by the decoder.
    if (
      block.bytes > 2 * this.#limits.maxHeaderListBytes ||
      block.parts.length > MAX_CONTINUATION_FRAMES
    ) {
      throw new Http2Error(Http2ErrorCode.ENHANCE_YOUR_CALM, "header block too large");
    }
    if (!complete) {
      block.parts.push(Buffer.from(part));
      return;
    }
    this.#headerBlock = undefined;
    const whole = block.parts.length === 0 ? part : Buffer.concat([...block.parts, part]);
    const decoded = this.#decoder.decode(whole);
    const headers = decoded.tooLarge ? undefined : decoded.headers;
    const stream = this.#streams.get(block.streamId);
    if (stream !== undefined) {
      if (headers === undefined) stream.reset(Http2ErrorCode.ENHANCE_YOUR_CALM);
      else stream.receiveHeaders(headers, block.endStream);
    } else if (this.#isIdle(block.streamId)) {
      this.#newRequest(block.streamId, headers, block.endStream);
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
      this.#decoder.settingsAcknowledged();
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
      this.#sendWindowBytes += bytes;
      if (bytes === 0 || this.#sendWindowBytes > MAX_WINDOW_BYTES) {
        throw new Http2Error(
          bytes === 0 ? Http2ErrorCode.PROTOCOL_ERROR : Http2ErrorCode.FLOW_CONTROL_ERROR,
          "bad WINDOW_UPDATE",
        );
      }
      if (this.#sending.size > 0) this.#scheduleFlush();
      return;
    }
    const stream = this.#knownStream(streamId, "WINDOW_UPDATE");
    if (bytes === 0) stream?.reset(Http2ErrorCode.PROTOCOL_ERROR);
    else if (stream?.growSendWindow(bytes) === false)
      stream.reset(Http2ErrorCode.FLOW_CONTROL_ERROR);
  }

  // Ending

  #endIfDone(): void {
    if (!this.#leaving || this.#closed || this.#streams.size > 0 || this.#control.length > 0)
      return;
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
    this.#control = [];
    this.#sending.clear();
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
