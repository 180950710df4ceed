import type { Socket } from "node:net";
import { PacketType, SocketEnd, systemErrorText } from "@reachback/common";
import type {
  CancelTimer,
  Clock,
  ConnectionId,
  ControlPacket,
  DialId,
  DialRequestPacket,
  Logger,
  SocketEndLimits,
} from "@reachback/common";
import type { AgentMetrics } from "../metrics.ts";
import type { CloseReason } from "./close-reason.ts";
import { DialError } from "./dial-error.ts";
import type { EndpointDialer } from "./endpoint-dialer.ts";

/** The tunnel that a connection runs over, as the connection sees it. */
export interface ConnectionTunnel {
  send(packet: ControlPacket): void;
  /** Returns false when enough waits; then {@link EndpointConnection.tunnelReady} follows. */
  sendData(connection: EndpointConnection, payload: Buffer): boolean;
  /** The endpoint is full: the server has to wait until {@link resumeFor}. */
  pauseFor(connection: EndpointConnection): void;
  resumeFor(connection: EndpointConnection): void;
  /** Nothing more comes for the endpoint, but it still has to take what is queued. */
  flushing(connection: EndpointConnection): void;
  /** The endpoint is reached: the connection is known by its id from now on. */
  established(connection: EndpointConnection): void;
  /** The server knows that the connection is closed; its socket may still be finishing. */
  connectionClosed(connection: EndpointConnection): void;
  /** Nothing of the connection is left. */
  forget(connection: EndpointConnection): void;
}

/** What a connection needs from the agent around it. */
export interface ConnectionPorts {
  readonly clock: Clock;
  readonly metrics: AgentMetrics;
  readonly logger: Logger;
  readonly dialer: EndpointDialer;
  readonly socketLimits: SocketEndLimits;
}

/**
 * One connection to an endpoint, from the request to dial it until its socket is gone.
 *
 * ```text
 *   dialing ──▶ open ──CLOSE_REQ──▶ flushing ──▶ finishing ──▶ gone
 *      │          └──endpoint's end or error──────▶│
 *      └───────────────────────────────────────────────────▶ gone
 * ```
 *
 * `flushing`: what the server sent is still being written; then it is told CLOSE_RSP. `finishing`:
 * the server has been told, the socket delivers what it has and ends.
 */
export class EndpointConnection {
  readonly connectionId: ConnectionId;
  readonly dialId: DialId;

  readonly #address: string;
  readonly #tunnel: ConnectionTunnel;
  readonly #ports: ConnectionPorts;
  readonly #dialAbort = new AbortController();
  #state: "dialing" | "open" | "flushing" | "finishing" | "gone" = "dialing";
  #socket: Socket | undefined;
  #endpoint: SocketEnd | undefined;
  #cancelStallTimer: CancelTimer | undefined;
  #bytesToEndpoint = 0;
  #bytesFromEndpoint = 0;

  constructor(
    connectionId: ConnectionId,
    request: DialRequestPacket,
    tunnel: ConnectionTunnel,
    ports: ConnectionPorts,
  ) {
    this.connectionId = connectionId;
    this.dialId = request.dialId;
    this.#address = request.address;
    this.#tunnel = tunnel;
    this.#ports = ports;
  }

  /** Dial the endpoint and answer the server. Never rejects. */
  async dial(protocol: string): Promise<void> {
    const { clock, dialer } = this.#ports;
    const startedAtMs = clock.now();
    let socket: Socket;
    try {
      socket = await dialer.dial(protocol, this.#address, this.#dialAbort.signal);
    } catch (error) {
      this.#dialFailed(error);
      return;
    }
    this.#dialed(socket, clock.now() - startedAtMs);
  }

  /** Bytes from the server that the endpoint has not taken. */
  get queuedBytes(): number {
    return this.#endpoint?.queuedBytes ?? 0;
  }

  // Called by the tunnel

  /** The server gave the dial up. */
  cancelDial(): void {
    if (this.#state !== "dialing") return;
    this.#dialAbort.abort();
    this.#gone();
  }

  /** Bytes for the endpoint. */
  receive(piece: Buffer): void {
    if (this.#state !== "open") return;
    this.#bytesToEndpoint += piece.length;
    this.#ports.metrics.bytes.toEndpoint.add(piece.length);
    if (this.#endpoint?.write(piece) !== false) return;
    this.#tunnel.pauseFor(this);
    if (this.#cancelStallTimer === undefined) this.#watchProgress();
  }

  /** The server wants the connection closed, behind what it has sent. */
  closeRequested(): void {
    if (this.#state !== "open") return;
    this.#state = "flushing";
    this.#stopWatching();
    this.#endpoint?.close((complete) => {
      // Otherwise its end follows, and says why.
      if (complete) this.#finish("server_closed", "");
    });
    this.#tunnel.flushing(this);
  }

  /** The tunnel takes bytes again. */
  tunnelReady(): void {
    this.#endpoint?.resumeReading();
  }

  /** The tunnel has ended: the endpoint must not take what it got for all there was. */
  tunnelLost(): void {
    if (this.#state === "dialing") {
      this.cancelDial();
    } else if (this.#state === "open" || this.#state === "flushing") {
      this.#ended("tunnel_lost", "");
      this.#endpoint?.reset();
    }
  }

  /** The agent exits: let go of the socket now. Only an endpoint that has got all sees an end. */
  abandon(): void {
    this.tunnelLost();
    if (this.queuedBytes > 0) this.#endpoint?.reset();
    else this.#socket?.destroy();
  }

  #dialed(socket: Socket, durationMs: number): void {
    if (this.#state !== "dialing") {
      socket.destroy();
      return;
    }
    this.#state = "open";
    this.#socket = socket;
    this.#tunnel.established(this);
    const { metrics, logger, clock, socketLimits } = this.#ports;
    metrics.endpointDialed(durationMs / 1000);
    metrics.connectionOpened();
    if (logger.debugEnabled) logger.debug("connection.opened", this.#logFields());
    // The answer is queued before the endpoint's first byte can be.
    this.#tunnel.send({
      type: PacketType.DIAL_RSP,
      dialId: this.dialId,
      connectionId: this.connectionId,
      error: "",
    });
    this.#endpoint = new SocketEnd(socket, socketLimits, clock, {
      data: (piece) => {
        this.#fromEndpoint(piece);
      },
      ended: () => {
        this.#finish("endpoint_closed", "");
        this.#endpoint?.close();
      },
      drained: () => {
        this.#stopWatching();
        this.#tunnel.resumeFor(this);
      },
      closed: (error) => {
        this.#socketClosed(error);
      },
    });
  }

  #dialFailed(error: unknown): void {
    if (this.#state !== "dialing") return;
    const { message, reason } =
      error instanceof DialError ? error : new DialError(`dial tcp: ${String(error)}`);
    this.#ports.metrics.endpointDialFailed(reason);
    this.#ports.logger.warn("dial.failed", { ...this.#logFields(), error: message });
    this.#tunnel.send({
      type: PacketType.DIAL_RSP,
      dialId: this.dialId,
      connectionId: 0 as ConnectionId,
      error: message,
    });
    this.#gone();
  }

  #fromEndpoint(piece: Buffer): void {
    this.#bytesFromEndpoint += piece.length;
    this.#ports.metrics.bytes.fromEndpoint.add(piece.length);
    if (!this.#tunnel.sendData(this, piece)) this.#endpoint?.pauseReading();
  }

  /** Give up on an endpoint that is full and takes nothing: the whole tunnel waits for it. */
  #watchProgress(): void {
    const { clock, socketLimits } = this.#ports;
    const takenBytes = this.#bytesToEndpoint - this.queuedBytes;
    this.#cancelStallTimer = clock.schedule(socketLimits.closeStallMs, () => {
      if (this.#bytesToEndpoint - this.queuedBytes > takenBytes) {
        this.#watchProgress();
      } else {
        this.#stalled();
        this.#endpoint?.reset();
      }
    });
  }

  #stopWatching(): void {
    this.#cancelStallTimer?.();
    this.#cancelStallTimer = undefined;
  }

  #socketClosed(error: Error | undefined): void {
    if (error !== undefined) {
      const { syscall = "read" } = error as NodeJS.ErrnoException;
      const reason = `${syscall} tcp ${this.#address}: ${syscall}: ${systemErrorText(error)}`;
      this.#finish("endpoint_error", reason);
    } else if (this.#state === "flushing") {
      this.#stalled();
    } else {
      this.#finish("endpoint_error", `read tcp ${this.#address}: closed`);
    }
    this.#gone();
  }

  #stalled(): void {
    this.#finish("endpoint_stalled", `write tcp ${this.#address}: i/o timeout`);
  }

  /** Tell the server that the connection is closed, behind all data of the endpoint. */
  #finish(reason: CloseReason, error: string): void {
    if (this.#state !== "open" && this.#state !== "flushing") return;
    this.#ended(reason, error);
    this.#tunnel.send({ type: PacketType.CLOSE_RSP, connectionId: this.connectionId, error });
  }

  #ended(reason: CloseReason, error: string): void {
    this.#state = "finishing";
    this.#stopWatching();
    const { metrics, logger } = this.#ports;
    metrics.connectionClosed(reason);
    if (logger.debugEnabled) {
      logger.debug("connection.closed", {
        ...this.#logFields(),
        reason,
        ...(error === "" ? {} : { error }),
        bytesToEndpoint: this.#bytesToEndpoint,
        bytesFromEndpoint: this.#bytesFromEndpoint,
      });
    }
    this.#tunnel.connectionClosed(this);
  }

  #gone(): void {
    this.#state = "gone";
    this.#tunnel.forget(this);
  }

  #logFields(): Record<string, string> {
    return {
      dialId: String(this.dialId),
      connectionId: String(this.connectionId),
      address: this.#address,
    };
  }
}
