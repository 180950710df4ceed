import type { GrpcStatus } from "../grpc/grpc-status.ts";
import type {
  ConnectionId,
  ControlPacket,
  PacketCounter,
  PacketHandler,
} from "../packet/packet.ts";

/** What the owner of a carrier is told. After `closed` nothing more comes. */
export interface CarrierHandler extends PacketHandler {
  /** Some of what was sent has left; see {@link Carrier.queuedBytes}. */
  sent(): void;

  /** There is room again after {@link Carrier.sendData} returned false. */
  drained(): void;

  /** The peer has finished sending in an orderly way; this end may still send. */
  ended(): void;

  /** The carrier is over; `status` says how. Called exactly once. */
  closed(status: GrpcStatus): void;
}

/** Counters of what a carrier moves, and of how it fails. */
export interface CarrierCounters {
  readonly sent: PacketCounter;
  readonly received: PacketCounter;
}

/**
 * Moves packets between two peers, in order. What is under it (gRPC over HTTP/2 today) stays
 * hidden: frontends, backends and tunnels know only this.
 */
export interface Carrier {
  /** Queue a packet, behind everything sent before. Dropped once the carrier is over. */
  send(packet: ControlPacket): void;

  /**
   * Queue `payload` (at least one byte) as a DATA packet, or as more of the last one while that is of the same
   * connection and waits. It is not copied: the caller leaves it alone from now on.
   *
   * @returns false when enough waits to be sent; then `drained` follows. What was given is queued
   * either way.
   */
  sendData(connectionId: ConnectionId, payload: Buffer): boolean;

  /** Bytes that wait to be sent, those around the payloads included. */
  readonly queuedBytes: number;

  /**
   * Let the peer send no more than it already may. What is on its way still arrives. Nothing else
   * is held up: neither sending nor other carriers of the same connection.
   */
  pauseReading(): void;
  resumeReading(): void;

  /** Let the peer have so many bytes more under way than at first, for good. */
  growWindow(bytes: number): void;

  /** Let {@link sendData} join packets of so many bytes at most; at first, what is fine for upstream peers. */
  joinUpTo(bytes: number): void;

  /** Finish in an orderly way, behind everything sent. Idempotent. */
  end(): void;

  /**
   * End at once for this side: `closed` is called before this returns. A client drops what waits to
   * be sent; a server's last word is `status`, which goes behind it. Idempotent.
   */
  abort(status: GrpcStatus): void;

  readonly isClosed: boolean;
}

/** A server's end of a carrier. */
export interface ServerCarrier extends Carrier {
  /**
   * End both ways at once, with what waits to be sent and without a last word; also what `end` or
   * `abort` have left to be sent. `closed` is called before this returns, unless it was. Idempotent.
   */
  reset(): void;
}
