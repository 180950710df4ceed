import { PacketType } from "@reachback/common";
import type {
  CancelTimer,
  Clock,
  ConnectionId,
  ControlPacket,
  DialId,
  Logger,
} from "@reachback/common";
import type { DialFailureReason, ServerMetrics } from "../metrics.ts";
import type { CloseReason } from "./close-reason.ts";
import type { DialFailure, FrontendEnd } from "./frontend-end.ts";

/** What a frontend asks for. */
export interface DialRequest {
  /** The id that the frontend knows the dial by. */
  readonly dialId: DialId;
  readonly protocol: string;
  /** `host:port`, passed on as it came. */
  readonly address: string;
}

/** The tunnel that a connection runs over, as the connection sees it. */
export interface ConnectionTunnel {
  readonly agentId: string;
  send(packet: ControlPacket): void;
  /** Returns false when enough waits; then {@link Connection.tunnelReady} follows. */
  sendData(connection: Connection, payload: Buffer): boolean;
  /** The frontend is full: the agent has to wait until {@link resumeFor}. */
  pauseFor(connection: Connection): void;
  resumeFor(connection: Connection): void;
  /** The dial was answered: the connection is known by its id from now on. */
  established(connection: Connection): void;
  /** The agent has let a dial run into its deadline. */
  dialUnanswered(): void;
  /** Nothing of the connection is left. */
  forget(connection: Connection): void;
}

/** What a connection needs from the server around it. */
export interface ConnectionPorts {
  readonly clock: Clock;
  readonly metrics: ServerMetrics;
  readonly logger: Logger;
  /** A connection, or a dial, is over and nothing of it is left. */
  connectionEnded(): void;
}

/**
 * What a frontend is told when a tunnel ends under its connection. Upstream says nothing there,
 * which looks like an orderly end; Go clients ignore the text.
 */
const TUNNEL_LOST_TEXT = {
  agent_lost: "agent connection lost",
  shutdown: "proxy server shutting down",
} as const;

/**
 * One proxied connection, from the request to dial it until nothing of it is left.
 *
 * ```text
 *   dialing ──dialed──▶ open ──requestClose──▶ closing
 *      │                  │                       │
 *      └──────────────────┴───────finish──────────┴──▶ closed
 * ```
 *
 * `closing`: CLOSE_REQ is on its way to the agent, whose CLOSE_RSP comes behind the data that the
 * endpoint has sent; until then the frontend still receives. There is one way out of every state,
 * which releases whatever the connection holds.
 */
export class Connection {
  readonly request: DialRequest;
  /** The dial id towards the agent: the frontend's, unless another dial of the tunnel has it. */
  readonly wireDialId: DialId;

  readonly #tunnel: ConnectionTunnel;
  readonly #frontend: FrontendEnd;
  readonly #ports: ConnectionPorts;
  readonly #startedAtMs: number;
  #state: "dialing" | "open" | "closing" | "closed" = "dialing";
  #connectionId = 0 as ConnectionId;
  #openedAtMs = 0;
  /** Why {@link requestClose} was called. */
  #closeRequestReason: CloseReason = "client_closed";
  #cancelDeadline: CancelTimer | undefined;
  #bytesToAgent = 0;
  #bytesFromAgent = 0;

  constructor(
    request: DialRequest,
    wireDialId: DialId,
    tunnel: ConnectionTunnel,
    frontend: FrontendEnd,
    ports: ConnectionPorts,
  ) {
    this.request = request;
    this.wireDialId = wireDialId;
    this.#tunnel = tunnel;
    this.#frontend = frontend;
    this.#ports = ports;
    this.#startedAtMs = ports.clock.now();
  }

  /** The agent's id of the connection; 0 before the dial is answered. */
  get connectionId(): ConnectionId {
    return this.#connectionId;
  }

  get isDialing(): boolean {
    return this.#state === "dialing";
  }

  get isClosed(): boolean {
    return this.#state === "closed";
  }

  /** Send the request to the agent. @param timeoutMs - For the answer; 0 for ever. */
  dial(timeoutMs: number): void {
    if (timeoutMs > 0) {
      this.#cancelDeadline = this.#ports.clock.schedule(timeoutMs, () => {
        this.#giveUpDial();
        this.#tunnel.dialUnanswered();
        this.#dialFailed({ kind: "timeout" }, "backend_dial_timeout");
      });
    }
    this.#tunnel.send({
      type: PacketType.DIAL_REQ,
      dialId: this.wireDialId,
      protocol: this.request.protocol,
      address: this.request.address,
    });
  }

  // Called by the frontend

  /**
   * Pass bytes to the endpoint; only while the connection is open. They are not copied.
   *
   * @returns false when enough waits; `agentReady` follows.
   */
  send(piece: Buffer): boolean {
    if (this.#state !== "open") return true;
    this.#bytesToAgent += piece.length;
    this.#ports.metrics.bytes.toAgent.add(piece.length);
    return this.#tunnel.sendData(this, piece);
  }

  /** The frontend takes bytes again after `FrontendEnd.receive` returned false. */
  frontendReady(): void {
    this.#tunnel.resumeFor(this);
  }

  /**
   * Close behind what was sent, but go on receiving until the agent confirms; the frontend is told
   * by `closed`.
   */
  requestClose(reason: CloseReason): void {
    if (this.#state !== "open") return;
    this.#state = "closing";
    this.#closeRequestReason = reason;
    this.#sendCloseRequest();
  }

  /** The frontend has no more use for the connection, or for the dial. Idempotent. */
  abandon(reason: CloseReason): void {
    if (this.#state === "dialing") {
      this.#giveUpDial();
      this.#ports.metrics.dialFailed("frontend_close");
      this.#logDialFailure("frontend_close");
      this.#release();
      return;
    }
    if (this.#state === "open") this.#sendCloseRequest();
    this.#finish(reason, "");
  }

  // Called by the tunnel

  /** The agent has reached the endpoint. */
  dialed(connectionId: ConnectionId): void {
    if (this.#state !== "dialing") return;
    this.#state = "open";
    this.#cancelDeadline?.();
    this.#connectionId = connectionId;
    this.#openedAtMs = this.#ports.clock.now();
    this.#tunnel.established(this);
    const { metrics, logger } = this.#ports;
    metrics.dialSucceeded((this.#openedAtMs - this.#startedAtMs) / 1000, this.#openedAtMs);
    metrics.connectionOpened();
    if (logger.debugEnabled) logger.debug("connection.opened", this.#logFields());
    this.#frontend.dialed(connectionId);
  }

  /** The agent could not reach the endpoint. */
  dialRefused(error: string): void {
    this.#dialFailed({ kind: "refused", error }, "error_response");
  }

  /** The agent dropped the dial. */
  dialDropped(): void {
    this.#dialFailed({ kind: "dropped" }, "backend_close");
  }

  /** Bytes from the endpoint. */
  receive(piece: Buffer): void {
    if (this.#state === "closed") return;
    this.#bytesFromAgent += piece.length;
    const { clock, metrics } = this.#ports;
    metrics.bytes.fromAgent.add(piece.length);
    const beforeMs = clock.now();
    const hasRoom = this.#frontend.receive(piece);
    metrics.frontendWrote((clock.now() - beforeMs) / 1000);
    if (!hasRoom) this.#tunnel.pauseFor(this);
  }

  /** The tunnel takes bytes again. */
  tunnelReady(): void {
    if (this.#state === "open") this.#frontend.agentReady();
  }

  /** The agent has closed the connection; `error` is empty if that was orderly. */
  closedByAgent(error: string): void {
    const asked = this.#state === "closing";
    if (error !== "") this.#finish("endpoint_error", error);
    else this.#finish(asked ? this.#closeRequestReason : "endpoint_closed", "");
  }

  /** The tunnel has ended, by itself or because this server stops. */
  tunnelLost(reason: "agent_lost" | "shutdown"): void {
    if (this.#state === "dialing") this.#dialFailed({ kind: "agentLost" }, "backend_close");
    else this.#finish(reason, TUNNEL_LOST_TEXT[reason]);
  }

  #giveUpDial(): void {
    this.#tunnel.send({ type: PacketType.DIAL_CLS, dialId: this.wireDialId });
  }

  #sendCloseRequest(): void {
    this.#tunnel.send({ type: PacketType.CLOSE_REQ, connectionId: this.#connectionId });
  }

  #dialFailed(failure: DialFailure, reason: DialFailureReason): void {
    if (this.#state !== "dialing") return;
    this.#ports.metrics.dialFailed(reason);
    this.#logDialFailure(reason, failure.kind === "refused" ? failure.error : undefined);
    this.#release();
    this.#frontend.dialFailed(failure);
  }

  #finish(reason: CloseReason, error: string): void {
    if (this.#state === "closed") return;
    const { clock, metrics, logger } = this.#ports;
    metrics.connectionClosed(reason, (clock.now() - this.#openedAtMs) / 1000);
    if (logger.debugEnabled) {
      logger.debug("connection.closed", {
        ...this.#logFields(),
        reason,
        ...(error === "" ? {} : { error }),
        bytesToAgent: this.#bytesToAgent,
        bytesFromAgent: this.#bytesFromAgent,
      });
    }
    this.#release();
    this.#frontend.closed(reason, error);
  }

  #release(): void {
    this.#state = "closed";
    this.#cancelDeadline?.();
    this.#tunnel.forget(this);
    this.#ports.connectionEnded();
  }

  #logDialFailure(reason: DialFailureReason, error?: string): void {
    this.#ports.logger.warn("dial.failed", { ...this.#logFields(), reason, error });
  }

  #logFields(): Record<string, string | number> {
    return {
      dialId: String(this.wireDialId),
      connectionId: String(this.#connectionId),
      agentId: this.#tunnel.agentId,
      address: this.request.address,
    };
  }
}
