import { PacketType } from "@reachback/common";
import type { ConnectionId, ControlPacket, DialId } from "@reachback/common";
import type { CloseReason } from "../dial/close-reason.ts";
import type { Connection } from "../dial/connection.ts";
import type { DialFailure, FrontendEnd } from "../dial/frontend-end.ts";
import { dialErrorText } from "./dial-error-text.ts";

/** The `Proxy` stream that a connection comes over. */
export interface ProxyEndStream {
  /** Whether the client knows FINISH and RESET. */
  readonly hasHalfClose: boolean;
  sendControl(packet: ControlPacket): void;
  sendData(connectionId: ConnectionId, piece: Buffer): void;
  /** The agent takes bytes again. */
  agentReady(): void;
  /** The dial has failed, or the connection is over. */
  forget(end: ProxyEnd): void;
}

/** The stream's end of one of its connections. */
export class ProxyEnd implements FrontendEnd {
  readonly dialId: DialId;
  connection: Connection | undefined;
  readonly #stream: ProxyEndStream;
  #connectionId = 0 as ConnectionId;
  /** Bytes that were given to the stream and have not left. */
  #waitingBytes = 0;

  constructor(stream: ProxyEndStream, dialId: DialId) {
    this.#stream = stream;
    this.dialId = dialId;
  }

  dialed(connectionId: ConnectionId): void {
    this.#connectionId = connectionId;
    this.#stream.sendControl({
      type: PacketType.DIAL_RSP,
      dialId: this.dialId,
      connectionId,
      error: "",
    });
  }

  dialFailed(failure: DialFailure): void {
    this.#stream.forget(this);
    const { dialId } = this;
    if (failure.kind === "dropped") {
      this.#stream.sendControl({ type: PacketType.DIAL_CLS, dialId });
      return;
    }
    this.#stream.sendControl({
      type: PacketType.DIAL_RSP,
      dialId,
      connectionId: 0 as ConnectionId,
      error: dialErrorText(failure),
    });
  }

  receive(piece: Buffer): void {
    this.#waitingBytes += piece.length;
    this.#stream.sendData(this.#connectionId, piece);
  }

  reportTaken(): void {
    // The stream tells of every frame.
  }

  /** Whether something that was received waits in the stream. */
  get holdsBytes(): boolean {
    return this.#waitingBytes > 0;
  }

  /** The stream has sent something; so many bytes still wait, of everybody and all around them. */
  sent(queuedBytes: number): void {
    const takenBytes = this.#waitingBytes - queuedBytes;
    if (takenBytes <= 0) return;
    this.#waitingBytes = queuedBytes;
    this.connection?.taken(takenBytes);
  }

  finish(): boolean {
    if (!this.#stream.hasHalfClose) return false;
    this.#stream.sendControl({ type: PacketType.FINISH, connectionId: this.#connectionId });
    return true;
  }

  agentReady(): void {
    this.#stream.agentReady();
  }

  closed(_reason: CloseReason, error: string): void {
    this.#stream.forget(this);
    this.#stream.sendControl({
      type: PacketType.CLOSE_RSP,
      connectionId: this.#connectionId,
      error,
    });
  }
}
