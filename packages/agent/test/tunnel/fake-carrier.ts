import type { Carrier, ConnectionId, ControlPacket } from "@reachback/common";
import { PacketType } from "@reachback/common";

/** A carrier that keeps what it is given, and has as much room as a test says. */
export class FakeCarrier implements Carrier {
  queuedBytes = 0;
  /** Packets in one line each: `DIAL_RSP 111 1`, `DATA 1 5`, `CLOSE_RSP 1 "reason"`. */
  readonly sent: string[] = [];
  readonly payloads: Buffer[] = [];
  /** Whether {@link sendData} says that there is room for more. */
  hasRoom = true;
  isReadingPaused = false;
  isEnded = false;
  isClosed = false;

  send(packet: ControlPacket): void {
    this.sent.push(lineOf(packet));
  }

  sendData(connectionId: ConnectionId, payload: Buffer): boolean {
    this.sent.push(`DATA ${connectionId} ${payload.length}`);
    this.payloads.push(payload);
    return this.hasRoom;
  }

  growWindow(): void {
    // There is none.
  }

  joinUpTo(): void {
    // Nothing waits to be joined.
  }

  pauseReading(): void {
    this.isReadingPaused = true;
  }

  resumeReading(): void {
    this.isReadingPaused = false;
  }

  end(): void {
    this.isEnded = true;
  }

  abort(): void {
    this.isClosed = true;
  }
}

function lineOf(packet: ControlPacket): string {
  const quoted = (error: string) => (error === "" ? "" : ` "${error}"`);
  switch (packet.type) {
    case PacketType.DIAL_REQ:
      return `DIAL_REQ ${packet.dialId} ${packet.address}`;
    case PacketType.DIAL_RSP:
      return `DIAL_RSP ${packet.dialId} ${packet.connectionId}${quoted(packet.error)}`;
    case PacketType.CLOSE_REQ:
      return `CLOSE_REQ ${packet.connectionId}`;
    case PacketType.CLOSE_RSP:
      return `CLOSE_RSP ${packet.connectionId}${quoted(packet.error)}`;
    case PacketType.DIAL_CLS:
      return `DIAL_CLS ${packet.dialId}`;
    case PacketType.DRAIN:
      return "DRAIN";
    case PacketType.CREDIT:
      return `CREDIT ${packet.connectionId} ${packet.bytes}`;
    case PacketType.FINISH:
      return `FINISH ${packet.connectionId}`;
    case PacketType.RESET:
      return `RESET ${packet.connectionId}${quoted(packet.error)}`;
  }
}
