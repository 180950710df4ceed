import type { Socket } from "node:net";
import { PacketType, SocketEnd, systemErrorText } from "@reachback/common";
import type {
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
  #endpoint: SocketEnd | undefined;
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
    const { clock, metrics, dialer } = this.#ports;
    const startedAtMs = clock.now();
    try {
      const socket = await dialer.dial(protocol, this.#address, this.#dialAbort.signal);
      metrics.endpointDialed((clock.now() - startedAtMs) / 1000);
      this.#dialed(socket);
    } catch (error) {
      this.#dialFailed(error);
    }
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
    if (this.#endpoint?.write(piece) === false) this.#tunnel.pauseFor(this);
  }

  /** The server wants the connection closed, behind what it has sent. */
  closeRequested(): void {
    if (this.#state !== "open") return;
    this.#state = "flushing";
    // A full socket drains by itself now; the tunnel must not wait for it.
    this.#tunnel.resumeFor(this);
    this.#endpoint?.close((complete) => {
      if (complete) this.#finish("server_closed", "");
      else this.#finish("endpoint_stalled", `write tcp ${this.#address}: i/o timeout`);
    });
  }

  /** The tunnel takes bytes again. */
  tunnelReady(): void {
    this.#endpoint?.resumeReading();
  }

  /** The tunnel has ended: the endpoint must not take what it got for all there was. */
  tunnelLost(): void {
    if (this.#state === "dialing") {
      this.cancelDial();
      return;
    }
    if (this.#state === "finishing") return;
    this.#ended("tunnel_lost", "");
    this.#endpoint?.reset();
  }

  #dialed(socket: Socket): void {
    if (this.#state !== "dialing") {
      socket.destroy();
      return;
    }
    this.#state = "open";
    this.#tunnel.established(this);
    const { metrics, logger, clock, socketLimits } = this.#ports;
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
        this.#tunnel.resumeFor(this);
      },
      closed: (error) => {
        this.#socketClosed(error);
      },
    });
  }

  #dialFailed(error: unknown): void {
    if (this.#state !== "dialing") return;
    if (!(error instanceof DialError)) throw error;
    this.#ports.metrics.endpointDialFailed(error.reason);
    this.#ports.logger.warn("dial.failed", { ...this.#logFields(), error: error.message });
    this.#tunnel.send({
      type: PacketType.DIAL_RSP,
      dialId: this.dialId,
      connectionId: 0 as ConnectionId,
      error: error.message,
    });
    this.#gone();
  }

  #fromEndpoint(piece: Buffer): void {
    this.#bytesFromEndpoint += piece.length;
    this.#ports.metrics.bytes.fromEndpoint.add(piece.length);
    if (!this.#tunnel.sendData(this, piece)) this.#endpoint?.pauseReading();
  }

  #socketClosed(error: Error | undefined): void {
    if (this.#state === "open") {
      const text = error === undefined ? "closed" : `read: ${systemErrorText(error)}`;
      this.#finish("endpoint_error", `read tcp ${this.#address}: ${text}`);
    }
    this.#gone();
  }

  /** Tell the server that the connection is closed, behind all data of the endpoint. */
  #finish(reason: CloseReason, error: string): void {
    if (this.#state !== "open" && this.#state !== "flushing") return;
    this.#ended(reason, error);
    this.#tunnel.send({ type: PacketType.CLOSE_RSP, connectionId: this.connectionId, error });
  }

  #ended(reason: CloseReason, error: string): void {
    this.#state = "finishing";
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
