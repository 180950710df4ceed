import { PacketType } from "@reachback/common";
import type { Clock, ConnectionId, ControlPacket, DialId, Logger } from "@reachback/common";
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
  /** Nothing of the connection is left. */
  forget(connection: Connection): void;
}

/** Whoever looks after a dial until it is over: for how long agents are asked, and which one next. */
export interface DialKeeper {
  /**
   * The agent that was asked has failed the dial, which is no longer with it.
   *
   * @returns whether another one has been asked; otherwise the dial fails.
   */
  askAnother(reason: DialFailureReason): boolean;

  /** The dial is over, one way or another. Called once. */
  dialOver(): void;
}

/** Where a dial is while no agent has been asked: there is nobody to tell anything. */
const NO_TUNNEL: ConnectionTunnel = {
  agentId: "",
  send: () => undefined,
  sendData: () => true,
  pauseFor: () => undefined,
  resumeFor: () => undefined,
  established: () => undefined,
  forget: () => undefined,
};

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
 * `dialing`: perhaps with one agent after another, see {@link DialKeeper}; the frontend hears only
 * how it ends. `closing`: CLOSE_REQ is on its way to the agent, whose CLOSE_RSP comes behind the
 * data that the endpoint has sent; until then the frontend still receives. There is one way out of
 * every state, which releases whatever the connection holds.
 */
export class Connection {
  readonly request: DialRequest;

  readonly #keeper: DialKeeper;
  /** Another one may be asked while the dial goes on; then it is this one to the end. */
  #tunnel = NO_TUNNEL;
  #wireDialId: DialId;
  readonly #frontend: FrontendEnd;
  readonly #ports: ConnectionPorts;
  readonly #startedAtMs: number;
  #state: "dialing" | "open" | "closing" | "closed" = "dialing";
  #connectionId = 0 as ConnectionId;
  #openedAtMs = 0;
  /** Why {@link requestClose} was called. */
  #closeRequestReason: CloseReason = "client_closed";
  #bytesToAgent = 0;
  #bytesFromAgent = 0;

  constructor(
    request: DialRequest,
    frontend: FrontendEnd,
    keeper: DialKeeper,
    ports: ConnectionPorts,
  ) {
    this.request = request;
    this.#wireDialId = request.dialId;
    this.#keeper = keeper;
    this.#frontend = frontend;
    this.#ports = ports;
    this.#startedAtMs = ports.clock.now();
  }

  /** The agent's id of the connection; 0 before the dial is answered. */
  get connectionId(): ConnectionId {
    return this.#connectionId;
  }

  /** The dial id towards the agent: the frontend's, unless another dial of the tunnel has it. */
  get wireDialId(): DialId {
    return this.#wireDialId;
  }

  get isDialing(): boolean {
    return this.#state === "dialing";
  }

  get isClosed(): boolean {
    return this.#state === "closed";
  }

  /** Send the request to an agent, after any other has been told to forget it. */
  ask(tunnel: ConnectionTunnel, wireDialId: DialId): void {
    this.#tunnel = tunnel;
    this.#wireDialId = wireDialId;
    tunnel.send({
      type: PacketType.DIAL_REQ,
      dialId: wireDialId,
      protocol: this.request.protocol,
      address: this.request.address,
    });
  }

  /** The agent has had its time: tell it to forget the dial, and ask another one, if there is one. */
  dialUnanswered(): void {
    if (this.#state !== "dialing") return;
    this.#tunnel.send({ type: PacketType.DIAL_CLS, dialId: this.wireDialId });
    this.#agentFailed({ kind: "timeout" }, "backend_dial_timeout");
  }

  /** Nobody can be asked. */
  dialFailed(failure: DialFailure, reason: DialFailureReason): void {
    if (this.#state !== "dialing") return;
    this.#ports.metrics.dialFailed(reason);
    this.#logDialFailure(reason, "error" in failure ? failure.error : undefined);
    this.#release();
    this.#frontend.dialFailed(failure);
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
      this.#tunnel.send({ type: PacketType.DIAL_CLS, dialId: this.wireDialId });
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
    this.#keeper.dialOver();
    this.#connectionId = connectionId;
    this.#openedAtMs = this.#ports.clock.now();
    this.#tunnel.established(this);
    const { metrics, logger } = this.#ports;
    metrics.dialSucceeded((this.#openedAtMs - this.#startedAtMs) / 1000);
    metrics.connectionOpened();
    if (logger.debugEnabled) logger.debug("connection.opened", this.#logFields());
    this.#frontend.dialed(connectionId);
  }

  /** The agent could not reach the endpoint. */
  dialRefused(error: string): void {
    this.dialFailed({ kind: "refused", error }, "error_response");
  }

  /** The agent dropped the dial. */
  dialDropped(): void {
    this.#agentFailed({ kind: "dropped" }, "backend_close");
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
    if (this.#state !== "dialing") this.#finish(reason, TUNNEL_LOST_TEXT[reason]);
    else if (reason === "shutdown") this.dialFailed({ kind: "agentLost" }, "backend_close");
    else this.#agentFailed({ kind: "agentLost" }, "backend_close");
  }

  #sendCloseRequest(): void {
    this.#tunnel.send({ type: PacketType.CLOSE_REQ, connectionId: this.#connectionId });
  }

  /** The dial failed through no fault of the endpoint's: another agent may do better. */
  #agentFailed(failure: DialFailure, reason: DialFailureReason): void {
    if (this.#state !== "dialing") return;
    this.#tunnel.forget(this);
    if (!this.#keeper.askAnother(reason)) this.dialFailed(failure, reason);
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
    if (this.#state === "dialing") this.#keeper.dialOver();
    this.#state = "closed";
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
