import { GrpcCode, PacketType, goCodeName } from "@reachback/common";
import type {
  Carrier,
  ConnectionId,
  ControlPacket,
  DialId,
  GrpcClientHandler,
  GrpcStatus,
} from "@reachback/common";
import { ClientError, dialErrorFrom } from "./client-error.ts";
import { ConnectionStream } from "./connection-stream.ts";
import type { StreamCarrier } from "./connection-stream.ts";

/** One `Proxy` call: the dial, then the connection that it becomes. */
export class ProxyCall implements GrpcClientHandler, StreamCarrier {
  readonly #dialId: DialId;
  readonly #settle: (outcome: ConnectionStream | Error) => void;
  readonly #onOver: () => void;
  #carrier: Carrier | undefined;
  #stream: ConnectionStream | undefined;
  #connectionId = 0 as ConnectionId;
  #isOver = false;

  /**
   * @param settle - Called with the outcome of the dial, perhaps more than once: the first counts.
   * @param onOver - Called once when nothing of the call is left.
   */
  constructor(
    dialId: DialId,
    settle: (outcome: ConnectionStream | Error) => void,
    onOver: () => void,
  ) {
    this.#dialId = dialId;
    this.#settle = settle;
    this.#onOver = onOver;
  }

  /** Send the request over the call's carrier. */
  dial(carrier: Carrier, endpoint: string): void {
    this.#carrier = carrier;
    carrier.send({
      type: PacketType.DIAL_REQ,
      dialId: this.#dialId,
      protocol: "tcp",
      address: endpoint,
    });
  }

  /** Give the dial up. */
  cancel(reason: Error): void {
    this.#carrier?.send({ type: PacketType.DIAL_CLS, dialId: this.#dialId });
    this.#carrier?.end();
    this.#settle(reason);
  }

  // StreamCarrier

  sendData(piece: Buffer): boolean {
    return this.#carrier?.sendData(this.#connectionId, piece) ?? true;
  }

  sendClose(): void {
    this.#carrier?.send({ type: PacketType.CLOSE_REQ, connectionId: this.#connectionId });
  }

  pauseReading(): void {
    this.#carrier?.pauseReading();
  }

  resumeReading(): void {
    this.#carrier?.resumeReading();
  }

  release(error: Error | undefined): void {
    if (this.#isOver) return;
    if (error === undefined) this.#carrier?.end();
    else this.#carrier?.abort({ code: GrpcCode.CANCELLED, message: error.message });
  }

  // GrpcClientHandler

  opened(): void {
    // The server's metadata says nothing.
  }

  control(packet: ControlPacket): void {
    switch (packet.type) {
      case PacketType.DIAL_RSP:
        if (packet.dialId !== this.#dialId || this.#stream !== undefined) return;
        if (packet.error === "") {
          this.#connectionId = packet.connectionId;
          this.#stream = new ConnectionStream(this);
          this.#settle(this.#stream);
        } else {
          this.#fail(dialErrorFrom(packet.error));
        }
        return;
      case PacketType.CLOSE_RSP:
        if (packet.connectionId !== this.#connectionId) return;
        this.#stream?.remoteClosed(
          packet.error === "" ? undefined : new ClientError("ERR_CONNECTION_LOST", packet.error),
        );
        return;
      case PacketType.DIAL_CLS:
        this.#fail(new ClientError("ERR_DIAL_FAILED", "the agent dropped the dial"));
        return;
      case PacketType.DIAL_REQ:
      case PacketType.CLOSE_REQ:
      case PacketType.DRAIN:
        return;
    }
  }

  data(connectionId: ConnectionId, piece: Buffer): void {
    if (connectionId === this.#connectionId) this.#stream?.receive(piece);
  }

  drained(): void {
    this.#stream?.roomAgain();
  }

  ended(): void {
    // The status follows.
  }

  closed(status: GrpcStatus): void {
    this.#isOver = true;
    const text = `the server ended the call: ${goCodeName(status.code)}: ${status.message}`;
    if (this.#stream === undefined) {
      const unreachable = status.code === GrpcCode.UNAVAILABLE;
      this.#settle(
        new ClientError(unreachable ? "ERR_SERVER_UNREACHABLE" : "ERR_SERVER_PROTOCOL", text),
      );
    } else if (!this.#stream.hasRemoteClosed) {
      // Without a CLOSE_RSP what arrived may not be all there was.
      this.#stream.remoteClosed(new ClientError("ERR_CONNECTION_LOST", text));
    }
    this.#onOver();
  }

  #fail(error: Error): void {
    this.#settle(error);
    this.#carrier?.end();
  }
}
