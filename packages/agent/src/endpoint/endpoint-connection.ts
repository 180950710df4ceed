import type { Socket } from "node:net";
import { PacketType, SilenceWatch, SocketEnd, systemErrorText } from "@reachback/common";
import type {
  Clock,
  CloseResponsePacket,
  ConnectionId,
  ControlPacket,
  DialId,
  DialRequestPacket,
  Flow,
  FlowOwner,
  FlowPorts,
  Logger,
  SocketEndLimits,
} from "@reachback/common";
import type { AgentMetrics } from "../metrics.ts";
import type { CloseReason } from "./close-reason.ts";
import { DialError } from "./dial-error.ts";
import type { EndpointDialer } from "./endpoint-dialer.ts";

/** The tunnel that a connection runs over, as the connection sees it. */
export interface ConnectionTunnel {
  /** Whether the server knows FINISH and RESET. */
  readonly hasHalfClose: boolean;
  /** Whether endpoints of closing connections may be left to take what they have by themselves. */
  readonly canHoldMore: boolean;
  send(packet: ControlPacket): void;
  /** The endpoint is reached: the connection is known by its id from now on, and has this share. */
  established(connection: EndpointConnection): Flow;
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
  readonly flow: FlowPorts;
  /** Silence after which a half-closed connection is reset, in milliseconds; 0 for never. */
  readonly halfCloseTimeoutMs: number;
}

/** What the server is told when it was us who ended a connection. */
const HALF_CLOSE_TIMEOUT = "half-close timeout";
const FLOW_CONTROL_VIOLATED = "flow control violated";
const RESET_BY_SERVER = "reset by server";

/**
 * One connection to an endpoint, from the request to dial it until its socket is gone.
 *
 * ```text
 *   dialing ──▶ open ──CLOSE_REQ, or both sides have finished──▶ flushing ──▶ finishing ──▶ gone
 *      │          └──the endpoint's error, or its end if that closes──────────▶│
 *      └───────────────────────────────────────────────────────────────────────────────▶ gone
 * ```
 *
 * `open`: either side may have finished already (half-closed). `flushing`: what the server sent is
 * still being written; then it is told CLOSE_RSP. `finishing`: CLOSE_RSP is on its way, behind what
 * the endpoint sent; the socket delivers what it has and ends.
 */
export class EndpointConnection implements FlowOwner {
  readonly connectionId: ConnectionId;
  readonly dialId: DialId;

  readonly #address: string;
  readonly #tunnel: ConnectionTunnel;
  readonly #ports: ConnectionPorts;
  readonly #dialAbort = new AbortController();
  #state: "dialing" | "open" | "flushing" | "finishing" | "gone" = "dialing";
  #socket: Socket | undefined;
  #endpoint: SocketEnd | undefined;
  #flow: Flow | undefined;
  #serverFinished = false;
  #endpointFinished = false;
  /** Whether the endpoint is not read because the server takes no more. */
  #isPaused = false;
  /** Watches a connection that the server has finished. */
  #silence: SilenceWatch | undefined;
  #isCloseRequested = false;
  /** Whether nobody waits for what the endpoint has sent. */
  #isUnheard = false;
  /** Whether the server knows that the connection is closed, or the tunnel is gone. */
  #isTold = false;
  /** What the server is told then. */
  #closeError = "";
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
    if (this.#state === "open" && !this.#serverFinished) this.#flow?.receive(piece);
  }

  /** The server takes so many bytes more. */
  addCredit(bytes: number): void {
    this.#silence?.touch();
    this.#flow?.addCredit(bytes);
  }

  /** The server has finished sending: so does the endpoint's socket, behind what was sent. */
  serverFinished(): void {
    if (this.#state !== "open" || this.#serverFinished) return;
    this.#serverFinished = true;
    this.#flow?.noMoreComes();
    if (this.#endpointFinished) {
      this.#flush("server_closed");
      return;
    }
    this.#endpoint?.finish();
    this.#watchSilence();
  }

  /** The server wants the connection closed, behind what it has sent. */
  closeRequested(): void {
    if (this.#state === "finishing") this.#tellNow();
    // The second one answers DATA: the server has no such connection any more.
    if (this.#state === "flushing") this.#isUnheard = this.#isCloseRequested;
    this.#isCloseRequested = true;
    if (this.#state === "open") this.#flush("server_closed");
  }

  /** The server's client is gone: the endpoint sees a reset, behind what was sent. */
  resetRequested(): void {
    if (this.#state === "finishing") this.#tellNow();
    if (this.#state !== "open" && this.#state !== "flushing") return;
    this.#finish("server_reset", RESET_BY_SERVER);
    this.#tellNow();
    this.#endpoint?.resetBehindData();
  }

  /** The tunnel has ended: the endpoint must not take what it got for all there was. */
  tunnelLost(): void {
    if (this.#state === "dialing") {
      this.cancelDial();
    } else if (this.#state === "open" || this.#state === "flushing") {
      this.#ended("tunnel_lost", "");
      this.#told();
      this.#endpoint?.reset();
    } else if (this.#state === "finishing" && !this.#isTold) {
      this.#told();
    }
  }

  // FlowOwner

  flowReceived(piece: Buffer): void {
    this.#bytesToEndpoint += piece.length;
    this.#ports.metrics.bytes.toEndpoint.add(piece.length);
    this.#endpoint?.write(piece);
  }

  flowReady(): void {
    this.#isPaused = false;
    this.#silence?.touch();
    this.#endpoint?.resumeReading();
  }

  flowOverrun(): void {
    this.#cut("protocol_error", FLOW_CONTROL_VIOLATED);
  }

  flowStalled(): void {
    this.#cut("slow_consumer", `write tcp ${this.#address}: i/o timeout`);
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
    this.#flow = this.#tunnel.established(this);
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
        this.#endpointEnded();
      },
      taken: (bytes) => {
        this.#silence?.touch();
        this.#flow?.taken(bytes);
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
    if (this.#flow === undefined) return;
    this.#bytesFromEndpoint += piece.length;
    this.#ports.metrics.bytes.fromEndpoint.add(piece.length);
    this.#silence?.touch();
    if (this.#flow.send(piece)) return;
    this.#isPaused = true;
    this.#endpoint?.pauseReading();
  }

  #endpointEnded(): void {
    if (this.#state !== "open") return;
    this.#endpointFinished = true;
    const { connectionId } = this;
    if (!this.#tunnel.hasHalfClose) {
      this.#finish("endpoint_closed", "");
      this.#endpoint?.close();
    } else if (this.#serverFinished) {
      this.#flush("endpoint_closed");
    } else {
      this.#flow?.sendBehind({ type: PacketType.FINISH, connectionId });
    }
  }

  /** Write what the server sent, then tell it that the connection is closed. */
  #flush(reason: CloseReason): void {
    this.#state = "flushing";
    this.#silence?.stop();
    this.#endpoint?.close((complete) => {
      // Otherwise its end follows, and says why.
      if (complete) this.#finish(reason, "");
    });
    // A full socket drains by itself now, and the server need not wait for it, unless too much has
    // come together: then it waits until the connection is closed.
    this.#flow?.noMoreComes(this.#tunnel.canHoldMore);
  }

  /** Watch an endpoint that has been told the client's end and has not finished itself. */
  #watchSilence(): void {
    const { clock, halfCloseTimeoutMs } = this.#ports;
    this.#silence = new SilenceWatch(clock, () => {
      if (this.#isPaused) {
        // It has to wait for a client that reads slowly.
        this.#watchSilence();
        return;
      }
      this.#finish("half_close_timeout", HALF_CLOSE_TIMEOUT);
      // It may still be reading what it was sent; but if it takes nothing, there is no use.
      if (this.queuedBytes > 0) this.#endpoint?.reset();
      else this.#endpoint?.close();
    });
    this.#silence.start(halfCloseTimeoutMs);
  }

  /** End the connection at once on our own account: both sides see that it was no orderly end. */
  #cut(reason: CloseReason, error: string): void {
    this.#finish(reason, error);
    this.#tellNow();
    this.#endpoint?.reset();
  }

  #socketClosed(error: Error | undefined): void {
    if (error !== undefined) {
      const { syscall = "read" } = error as NodeJS.ErrnoException;
      const reason = `${syscall} tcp ${this.#address}: ${syscall}: ${systemErrorText(error)}`;
      this.#finish("endpoint_error", reason);
    } else if (this.#state === "flushing") {
      this.#finish("endpoint_stalled", `write tcp ${this.#address}: i/o timeout`);
    } else {
      this.#finish("endpoint_error", `read tcp ${this.#address}: closed`);
    }
    if (this.#isTold) this.#gone();
    else this.#socket = undefined;
  }

  /** Tell the server that the connection is closed, behind all data of the endpoint. */
  #finish(reason: CloseReason, error: string): void {
    if (this.#state !== "open" && this.#state !== "flushing") return;
    this.#ended(reason, error);
    this.#closeError = error;
    this.#flow?.noMoreComes();
    if (this.#isUnheard) {
      this.#tellNow();
      return;
    }
    this.#flow?.sendBehind(this.#closeResponse(), () => {
      this.#told();
    });
  }

  /** Tell it now: nobody waits for what is queued. */
  #tellNow(): void {
    if (this.#isTold) return;
    this.#flow?.sendAbort(this.#closeResponse());
    this.#told();
  }

  #closeResponse(): CloseResponsePacket {
    const { connectionId } = this;
    return { type: PacketType.CLOSE_RSP, connectionId, error: this.#closeError };
  }

  #told(): void {
    this.#isTold = true;
    this.#flow?.close();
    this.#tunnel.connectionClosed(this);
    // The socket may have gone before.
    if (this.#socket === undefined) this.#gone();
  }

  #ended(reason: CloseReason, error: string): void {
    this.#state = "finishing";
    this.#silence?.stop();
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
