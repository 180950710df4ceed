import { GrpcMessageReader } from "../grpc/grpc-message-reader.ts";
import { GrpcCode, GrpcError } from "../grpc/grpc-status.ts";
import type { GrpcStatus } from "../grpc/grpc-status.ts";
import type { HeaderList } from "../hpack/header-list.ts";
import type { Http2Stream } from "../http2/http2-stream.ts";
import type { Http2StreamHandler, StreamClose } from "../http2/http2-stream-handler.ts";
import { PacketDecoder } from "../packet/packet-decoder.ts";
import { encodeControl, encodeDataHead } from "../packet/packet-encoder.ts";
import { PacketType } from "../packet/packet.ts";
import type { ConnectionId, ControlPacket, PacketCounter } from "../packet/packet.ts";
import { UPSTREAM_PIECE_BYTES } from "../piece-bytes.ts";
import type { Carrier, CarrierCounters, CarrierHandler } from "./carrier.ts";

/**
 * What waits to be sent of one connection, one piece behind the other, leaves as one packet from this size on;
 * what is smaller is messages, which stay as they came. The frames of a gRPC frontend's client come in
 * three pieces on average, as they were read: its uploads take a twentieth less CPU if their agent gets them whole.
 */
const MIN_JOINED_BYTES = 8 * 1024;

/** The packet that was written last, which is DATA. */
interface LastData {
  readonly connectionId: ConnectionId;
  head: Buffer;
  payloadBytes: number;
  pieceCount: number;
}

/** What both ends of a gRPC call that carries packets have in common. */
export abstract class GrpcCarrier implements Carrier, Http2StreamHandler {
  protected readonly handler: CarrierHandler;
  readonly #sent: PacketCounter;
  readonly #reader: GrpcMessageReader;
  #stream: Http2Stream | undefined;
  #maxJoinedBytes = UPSTREAM_PIECE_BYTES;
  /** While that may still wait to be sent. */
  #lastData: LastData | undefined;
  #closed = false;
  #readingPaused = false;
  /** Received bytes that the peer has not been given back, because reading is paused. */
  #heldBackBytes = 0;

  constructor(counters: CarrierCounters, handler: CarrierHandler) {
    this.handler = handler;
    this.#sent = counters.sent;
    this.#reader = new GrpcMessageReader(new PacketDecoder(handler, counters.received));
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  get queuedBytes(): number {
    return this.#stream?.queuedBytes ?? 0;
  }

  send(packet: ControlPacket): void {
    if (this.#closed) return;
    this.#lastData = undefined;
    this.#sent.count(packet.type);
    this.beforeWrite();
    this.#stream?.write(encodeControl(packet));
  }

  sendData(connectionId: ConnectionId, payload: Buffer): boolean {
    if (this.#closed || this.#stream === undefined) return true;
    if (this.#makeRoomInLast(this.#stream, connectionId, payload.length)) {
      return this.#stream.write(payload);
    }
    this.#sent.count(PacketType.DATA);
    this.beforeWrite();
    const head = encodeDataHead(connectionId, payload.length);
    this.#lastData = { connectionId, head, payloadBytes: payload.length, pieceCount: 1 };
    return this.#stream.write(head, payload);
  }

  pauseReading(): void {
    this.#readingPaused = true;
  }

  resumeReading(): void {
    this.#readingPaused = false;
    const bytes = this.#heldBackBytes;
    this.#heldBackBytes = 0;
    if (bytes > 0) this.#stream?.consumed(bytes);
  }

  growWindow(bytes: number): void {
    this.#stream?.growReceiveWindow(bytes);
  }

  joinUpTo(bytes: number): void {
    this.#maxJoinedBytes = bytes;
  }

  abstract end(): void;
  abstract abort(status: GrpcStatus): void;

  // Http2StreamHandler

  abstract headers(headers: HeaderList, endStream: boolean): void;

  data(piece: Buffer): void {
    if (this.#closed) return;
    if (this.#readingPaused) this.#heldBackBytes += piece.length;
    else this.#stream?.consumed(piece.length);
    try {
      this.#reader.push(piece);
    } catch (error) {
      if (!(error instanceof GrpcError)) throw error;
      this.fail(error.status);
    }
  }

  ended(): void {
    if (this.#closed) return;
    if (this.#reader.atBoundary) this.peerEnded();
    else this.fail({ code: GrpcCode.INTERNAL, message: "unexpected EOF" });
  }

  sent(): void {
    // Nothing waits: an idle call does not hold its last head, nor the 8 KiB of Node's pool around that.
    if (this.#stream?.queuedBytes === 0) this.#lastData = undefined;
    if (!this.#closed) this.handler.sent();
  }

  drained(): void {
    if (!this.#closed) this.handler.drained();
  }

  closed(reason: StreamClose): void {
    this.finish(this.statusOf(reason));
  }

  // For the two sides

  protected get stream(): Http2Stream | undefined {
    return this.#stream;
  }

  protected attach(stream: Http2Stream): void {
    this.#stream = stream;
  }

  /** Called before anything is written: a server sends its response headers now at the latest. */
  protected abstract beforeWrite(): void;

  /** The peer has sent all, and whole messages. */
  protected abstract peerEnded(): void;

  /** The peer broke the rules of gRPC or of packets: end the call with `status`. */
  protected abstract fail(status: GrpcStatus): void;

  protected abstract statusOf(reason: StreamClose): GrpcStatus;

  /** Have the last packet hold so many bytes more, if it is one for them and has not begun to leave. */
  #makeRoomInLast(stream: Http2Stream, connectionId: ConnectionId, moreBytes: number): boolean {
    const last = this.#lastData;
    if (last?.connectionId !== connectionId) return false;
    const payloadBytes = last.payloadBytes + moreBytes;
    if (payloadBytes < MIN_JOINED_BYTES || payloadBytes > this.#maxJoinedBytes) return false;
    const head = encodeDataHead(connectionId, payloadBytes);
    if (!stream.replaceWritten(last.head, last.pieceCount, head)) return false;
    last.head = head;
    last.payloadBytes = payloadBytes;
    last.pieceCount++;
    return true;
  }

  /** Tell the owner, once. */
  protected finish(status: GrpcStatus): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#reader.stop();
    this.handler.closed(status);
  }
}
