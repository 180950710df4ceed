import type { Int64 } from "./int64.ts";

declare const connectionIdBrand: unique symbol;
declare const dialIdBrand: unique symbol;

/** `connectID` on the wire: chosen by the agent, unique within one tunnel; 0 means none. */
export type ConnectionId = Int64 & { readonly [connectionIdBrand]: true };

/** `random` on the wire: chosen by whoever dials, opaque to everyone else. */
export type DialId = Int64 & { readonly [dialIdBrand]: true };

/** `Packet.type` of the wire (proto/tunnel.proto). */
export const PacketType = {
  DIAL_REQ: 0,
  DIAL_RSP: 1,
  CLOSE_REQ: 2,
  CLOSE_RSP: 3,
  DATA: 4,
  DIAL_CLS: 5,
  DRAIN: 6,
  // Extensions, sent only to a peer that has asked for them.
  CREDIT: 64,
  FINISH: 65,
  RESET: 66,
} as const;

/** What an agent or server is asked to dial. Forwarded byte for byte as the frontend wrote it. */
export interface DialRequestPacket {
  readonly type: typeof PacketType.DIAL_REQ;
  readonly dialId: DialId;
  readonly protocol: string;
  readonly address: string;
}

/** Answer to a dial: `error` is empty on success, `connectionId` is 0 on failure. */
export interface DialResponsePacket {
  readonly type: typeof PacketType.DIAL_RSP;
  readonly dialId: DialId;
  readonly connectionId: ConnectionId;
  readonly error: string;
}

export interface CloseRequestPacket {
  readonly type: typeof PacketType.CLOSE_REQ;
  readonly connectionId: ConnectionId;
}

export interface CloseResponsePacket {
  readonly type: typeof PacketType.CLOSE_RSP;
  readonly connectionId: ConnectionId;
  readonly error: string;
}

/** The dialer gave up, or the agent dropped the dial. */
export interface DialClosePacket {
  readonly type: typeof PacketType.DIAL_CLS;
  readonly dialId: DialId;
}

/**
 * The agent takes no new connections if others can; from a server (`server-drain`): it is about to
 * leave, and serves what comes until then.
 */
export interface DrainPacket {
  readonly type: typeof PacketType.DRAIN;
}

/** The sender of this takes so many bytes more of a connection. */
export interface CreditPacket {
  readonly type: typeof PacketType.CREDIT;
  readonly connectionId: ConnectionId;
  readonly bytes: number;
}

/** The sender of this has finished sending on a connection, and still receives. */
export interface FinishPacket {
  readonly type: typeof PacketType.FINISH;
  readonly connectionId: ConnectionId;
}

/** A connection has ended in another way than by its ends; `error` says how. */
export interface ResetPacket {
  readonly type: typeof PacketType.RESET;
  readonly connectionId: ConnectionId;
  readonly error: string;
}

/** Every packet but DATA, which travels apart so that its payload is neither collected nor copied. */
export type ControlPacket =
  | DialRequestPacket
  | DialResponsePacket
  | CloseRequestPacket
  | CloseResponsePacket
  | DialClosePacket
  | DrainPacket
  | CreditPacket
  | FinishPacket
  | ResetPacket;

/** Receives what a {@link PacketDecoder} reads, in the order of the wire. */
export interface PacketHandler {
  /** A complete packet other than DATA. */
  control(packet: ControlPacket): void;

  /**
   * The next bytes of a connection. One DATA packet may arrive as several pieces, each valid for as long
   * as what was pushed; an empty DATA packet arrives as nothing at all.
   *
   * @param first - Whether this piece begins a packet.
   */
  data(connectionId: ConnectionId, piece: Buffer, first: boolean): void;
}

/** Counts packets by wire type, numbers this version does not know included. */
export interface PacketCounter {
  count(type: number): void;
}
