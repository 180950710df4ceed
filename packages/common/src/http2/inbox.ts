import type { HeaderList } from "../hpack/header-list.ts";
import { FrameFlag, FrameType, pingFrame, resetFrame, settingsAckFrame } from "./frame.ts";
import { FrameReader } from "./frame-reader.ts";
import type { FrameHandler } from "./frame-reader.ts";
import { HeaderBlocks } from "./header-blocks.ts";
import type { HeaderBlock } from "./header-blocks.ts";
import { headerBlockProblem } from "./header-rules.ts";
import type { Http2ConnectionHandler } from "./http2-connection-handler.ts";
import { Http2Error, Http2ErrorCode } from "./http2-error.ts";
import type { Http2Limits } from "./http2-limits.ts";
import type { Http2Stream } from "./http2-stream.ts";
import { IncomingData } from "./incoming-data.ts";
import type { Outbox } from "./outbox.ts";
import { applyPeerSettings } from "./peer-settings.ts";
import { PrefaceReader } from "./preface.ts";
import type { StreamTable } from "./stream-table.ts";

/**
 * Everything that a connection receives: which frames may come when and where, and what each of
 * them does (RFC 9113 sections 4 to 6).
 */
export class Inbox implements FrameHandler {
  readonly #side: "client" | "server";
  readonly #streams: StreamTable;
  readonly #outbox: Outbox;
  readonly #handler: Http2ConnectionHandler;

  readonly #preface: PrefaceReader;
  readonly #reader: FrameReader;
  readonly #headerBlocks: HeaderBlocks;
  readonly #incomingData: IncomingData;
  #settingsSeen = false;

  /** @param side - Our own. */
  constructor(
    side: "client" | "server",
    limits: Http2Limits,
    streams: StreamTable,
    outbox: Outbox,
    handler: Http2ConnectionHandler,
  ) {
    this.#side = side;
    this.#streams = streams;
    this.#outbox = outbox;
    this.#handler = handler;
    this.#preface = new PrefaceReader(side);
    this.#reader = new FrameReader(this, limits.maxFrameBytes);
    this.#headerBlocks = new HeaderBlocks(limits.maxHeaderListBytes);
    this.#incomingData = new IncomingData(limits.connectionWindowBytes, streams, outbox);
  }

  /** Whether the peer's first SETTINGS have come. */
  get settingsSeen(): boolean {
    return this.#settingsSeen;
  }

  /** Take what the socket delivered. @throws {Http2Error} The connection cannot go on. */
  push(chunk: Buffer): void {
    this.#reader.push(chunk, this.#preface.read(chunk));
  }

  /** Take nothing more, not even what else is in the chunk being read. */
  stop(): void {
    this.#reader.stop();
  }

  /** `stream` is over: the rest of its frame is for nobody. */
  forget(stream: Http2Stream): void {
    this.#incomingData.forget(stream);
  }

  // FrameHandler

  frame(type: number, flags: number, streamId: number, payload: Buffer): void {
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
    if (!this.#settingsSeen || this.#headerBlocks.isIncomplete || streamId === 0) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "DATA where it may not be");
    }
    this.#incomingData.begin(streamId, flowBytes);
  }

  data(piece: Buffer): void {
    this.#incomingData.piece(piece);
  }

  dataEnd(endStream: boolean): void {
    this.#incomingData.end(endStream);
  }

  // Requests and other header blocks

  #headersFrame(flags: number, streamId: number, payload: Buffer): void {
    // Clients open odd streams, and servers never open any.
    if (streamId % 2 === 0 || (this.#side === "client" && this.#streams.isIdle(streamId))) {
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
    } else if (this.#streams.isIdle(streamId)) {
      this.#newRequest(streamId, headers, endStream);
    }
    // Otherwise trailers of a stream that we have ended: decoded for the table's sake only.
  }

  /** @param headers - `undefined` if they were larger than we accept. */
  #newRequest(streamId: number, headers: HeaderList | undefined, endStream: boolean): void {
    if (!this.#streams.peerBegan(streamId)) {
      this.#outbox.sendControl(resetFrame(streamId, Http2ErrorCode.REFUSED_STREAM));
      return;
    }
    if (headers === undefined) {
      this.#outbox.sendHeaders(streamId, [[":status", "431"]], true);
      if (!endStream) this.#outbox.sendControl(resetFrame(streamId, Http2ErrorCode.NO_ERROR));
      return;
    }
    if (headerBlockProblem(headers, "request") !== undefined) {
      this.#outbox.sendControl(resetFrame(streamId, Http2ErrorCode.PROTOCOL_ERROR));
      return;
    }
    const stream = this.#streams.accept(streamId);
    if (endStream) stream.beginEnded();
    stream.attach(this.#handler.request(stream, headers, endStream));
    if (endStream && !stream.isClosed) stream.handler.ended();
  }

  // Frames that control a stream or the connection

  #resetFrame(streamId: number, payload: Buffer): void {
    requireLength(payload, 4, "RST_STREAM");
    requireStream(streamId, "RST_STREAM");
    this.#streams.begun(streamId, "RST_STREAM")?.receiveReset(payload.readUInt32BE(0));
  }

  #settingsFrame(flags: number, streamId: number, payload: Buffer): void {
    requireConnection(streamId, "SETTINGS");
    if ((flags & FrameFlag.ACK) !== 0) {
      requireLength(payload, 0, "SETTINGS acknowledgement");
      this.#headerBlocks.settingsAcknowledged();
      return;
    }
    applyPeerSettings(payload, this.#streams, this.#outbox);
    this.#settingsSeen = true;
    this.#outbox.sendControl(settingsAckFrame());
  }

  #pingFrame(flags: number, streamId: number, payload: Buffer): void {
    requireLength(payload, 8, "PING");
    requireConnection(streamId, "PING");
    if ((flags & FrameFlag.ACK) === 0) this.#outbox.sendControl(pingFrame(payload, true));
  }

  #goawayFrame(streamId: number, payload: Buffer): void {
    requireConnection(streamId, "GOAWAY");
    if (payload.length < 8) {
      throw new Http2Error(Http2ErrorCode.FRAME_SIZE_ERROR, "GOAWAY of a broken length");
    }
    this.#streams.peerLeaves(payload.readUInt32BE(0) & 0x7fff_ffff);
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
    const stream = this.#streams.begun(streamId, "WINDOW_UPDATE");
    if (bytes === 0) stream?.reset(Http2ErrorCode.PROTOCOL_ERROR);
    else if (stream?.growSendWindow(bytes) === false)
      stream.reset(Http2ErrorCode.FLOW_CONTROL_ERROR);
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

function requireConnection(streamId: number, frame: string): void {
  if (streamId !== 0) {
    throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, `${frame} on a stream`);
  }
}
