import {
  FRONTEND_EXTENSIONS,
  GrpcCode,
  PIECE_BYTES,
  PacketType,
  goCodeName,
  namedExtensions,
} from "@reachback/common";
import type {
  CancelTimer,
  Carrier,
  Clock,
  ConnectionId,
  ControlPacket,
  DialId,
  GrpcClientHandler,
  GrpcStatus,
  HeaderList,
} from "@reachback/common";
import { ClientError, dialErrorFrom } from "./client-error.ts";
import { ConnectionStream } from "./connection-stream.ts";
import type { StreamCarrier, StreamOptions } from "./connection-stream.ts";

/** What the owner of a {@link ProxyCall} is told. */
export interface ProxyCallOwner {
  /** The dial succeeded, or failed; called at most once, and not after {@link ProxyCall.cancel}. */
  dialed(stream: ConnectionStream): void;
  dialFailed(error: ClientError): void;
  /** Nothing of the call is left; called once. */
  over(): void;
}

/**
 * How long the server may take to end a call that is finished for us; then it is cut. What was
 * written last is sent meanwhile, so this also bounds how slowly an endpoint may take it.
 */
const LEAVE_TIMEOUT_MS = 10_000;

/**
 * One `Proxy` call: the dial, then the connection that it becomes.
 *
 * ```text
 *   dialing ──DIAL_RSP──▶ open ──CLOSE_RSP, or the stream is destroyed──▶ leaving
 *      ├──cancelled, or DIAL_RSP with an error────────────────────────────▶│
 *      └──────────────── the server ends the call, from any state ─────────┴──▶ over
 * ```
 */
export class ProxyCall implements GrpcClientHandler, StreamCarrier {
  readonly #dialId: DialId;
  readonly #clock: Clock;
  readonly #owner: ProxyCallOwner;
  readonly #options: StreamOptions;
  #hasHalfClose = false;
  #state: "dialing" | "open" | "leaving" | "over" = "dialing";
  #carrier: Carrier | undefined;
  #stream: ConnectionStream | undefined;
  #connectionId = 0 as ConnectionId;
  #cancelLeaveTimer: CancelTimer | undefined;

  constructor(dialId: DialId, options: StreamOptions, clock: Clock, owner: ProxyCallOwner) {
    this.#dialId = dialId;
    this.#options = options;
    this.#clock = clock;
    this.#owner = owner;
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

  /** Give the dial up; without effect once its outcome is known. */
  cancel(): void {
    if (this.#state !== "dialing") return;
    this.#carrier?.send({ type: PacketType.DIAL_CLS, dialId: this.#dialId });
    this.#leave();
  }

  // StreamCarrier

  sendData(piece: Buffer): boolean {
    return this.#carrier?.sendData(this.#connectionId, piece) ?? true;
  }

  get hasHalfClose(): boolean {
    return this.#hasHalfClose;
  }

  sendEnd(): void {
    const type = this.#hasHalfClose ? PacketType.FINISH : PacketType.CLOSE_REQ;
    this.#carrier?.send({ type, connectionId: this.#connectionId });
  }

  pauseReading(): void {
    this.#carrier?.pauseReading();
  }

  resumeReading(): void {
    this.#carrier?.resumeReading();
  }

  release(error: Error | undefined): void {
    if (this.#state !== "open") return;
    if (error !== undefined && this.#hasHalfClose) {
      this.#carrier?.send({
        type: PacketType.RESET,
        connectionId: this.#connectionId,
        error: error.message,
      });
    }
    this.#leave();
    if (error !== undefined && !this.#hasHalfClose) this.#cut(error.message);
  }

  // GrpcClientHandler

  opened(metadata: HeaderList): void {
    this.#hasHalfClose = namedExtensions(metadata, FRONTEND_EXTENSIONS).has("half-close");
    // Only our server knows it: larger packets are half as many for it and for the agent behind it.
    if (this.#hasHalfClose) this.#carrier?.joinUpTo(PIECE_BYTES);
  }

  control(packet: ControlPacket): void {
    switch (packet.type) {
      case PacketType.DIAL_RSP:
        if (this.#state !== "dialing" || packet.dialId !== this.#dialId) return;
        if (packet.error !== "") {
          this.#dialFailed(dialErrorFrom(packet.error));
          return;
        }
        this.#state = "open";
        this.#connectionId = packet.connectionId;
        this.#stream = new ConnectionStream(this, this.#options, this.#clock);
        this.#owner.dialed(this.#stream);
        return;
      case PacketType.DIAL_CLS:
        if (this.#state !== "dialing") return;
        this.#dialFailed(new ClientError("ERR_DIAL_FAILED", "the agent dropped the dial"));
        return;
      case PacketType.CLOSE_RSP:
        if (this.#state !== "open" || packet.connectionId !== this.#connectionId) return;
        this.#leave();
        this.#stream?.remoteClosed(
          packet.error === "" ? undefined : new ClientError("ERR_CONNECTION_LOST", packet.error),
        );
        return;
      case PacketType.FINISH:
        if (this.#state !== "open" || packet.connectionId !== this.#connectionId) return;
        this.#stream?.remoteFinished();
        return;
      case PacketType.DIAL_REQ:
      case PacketType.CLOSE_REQ:
      case PacketType.DRAIN:
      case PacketType.CREDIT:
      case PacketType.RESET:
        return;
    }
  }

  data(connectionId: ConnectionId, piece: Buffer): void {
    if (this.#state !== "open" || connectionId !== this.#connectionId) return;
    this.#stream?.receive(piece);
  }

  sent(): void {
    // What matters here is room for more, see drained().
  }

  drained(): void {
    this.#stream?.roomAgain();
  }

  ended(): void {
    // The status follows.
  }

  closed(status: GrpcStatus): void {
    const stateBefore = this.#state;
    this.#state = "over";
    this.#cancelLeaveTimer?.();
    const text = `the server ended the call: ${goCodeName(status.code)}: ${status.message}`;
    if (stateBefore === "dialing") {
      const isGone = status.code === GrpcCode.UNAVAILABLE;
      this.#owner.dialFailed(
        new ClientError(isGone ? "ERR_SERVER_UNREACHABLE" : "ERR_SERVER_PROTOCOL", text),
      );
    } else if (stateBefore === "open") {
      // Without a CLOSE_RSP what arrived may not be all there was.
      this.#stream?.remoteClosed(new ClientError("ERR_CONNECTION_LOST", text));
    }
    this.#owner.over();
  }

  #dialFailed(error: ClientError): void {
    this.#leave();
    this.#owner.dialFailed(error);
  }

  /** Nothing more is wanted of the call: let the server end it, but do not wait for ever. */
  #leave(): void {
    this.#state = "leaving";
    this.#cancelLeaveTimer = this.#clock.schedule(LEAVE_TIMEOUT_MS, () => {
      this.#cut("the server did not end the call");
    });
    this.#carrier?.end();
    // What still comes is dropped, but the server must be able to get rid of it.
    this.#carrier?.resumeReading();
  }

  #cut(reason: string): void {
    this.#carrier?.abort({ code: GrpcCode.CANCELLED, message: reason });
  }
}
