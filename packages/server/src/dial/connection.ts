import { HALF_CLOSE_TIMEOUT, PacketType, recycledMemory } from "@reachback/common";
import type { ConnectionId, DialId, Flow, FlowOwner } from "@reachback/common";
import type { DialFailureReason } from "../metrics.ts";
import { AgentEnds } from "./agent-ends.ts";
import type { EndsTunnel } from "./agent-ends.ts";
import { OUR_REASON_TEXT, TUNNEL_LOST_TEXT } from "./close-reason.ts";
import type { CloseReason } from "./close-reason.ts";
import { ConnectionRecord } from "./connection-record.ts";
import type { RecordPorts } from "./connection-record.ts";
import type { DialFailure, DialRequest, FrontendEnd } from "./frontend-end.ts";
import { HalfCloseWatch } from "./half-close-watch.ts";
import type { HalfClosed, WaitsFor } from "./half-close-watch.ts";

/** The tunnel that a connection runs over, as the connection sees it. */
export interface ConnectionTunnel extends EndsTunnel {
  readonly agentId: string;
  /** The dial was answered: the connection is known by its id from now on, and has this share. */
  established(connection: Connection): Flow;
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
  hasHalfClose: false,
  send: () => undefined,
  established: () => {
    throw new Error("nobody has been asked");
  },
  forget: () => undefined,
};

/** What a connection needs from the server around it. */
export interface ConnectionPorts extends RecordPorts {
  /** Silence after which a half-closed connection is reset, in milliseconds; 0 for never. */
  readonly halfCloseTimeoutMs: number;
  /** A connection, or a dial, is over and nothing of it is left. */
  connectionEnded(): void;
}

/**
 * One proxied connection, from the request to dial it until nothing of it is left.
 *
 * ```text
 *   dialing ──dialed──▶ open ──requestClose, abandon, or both have finished──▶ closing
 *      │                  │                                                      │
 *      └─dialFailed───────┴──────────────────────#close──────────────────────────┴──▶ closed
 * ```
 *
 * `dialing`: perhaps with one agent after another, see {@link DialKeeper}; the frontend hears only
 * how it ends. `open`: either side may have finished already (half-closed). `closing`: the agent has
 * been told everything; its CLOSE_RSP comes behind the data that the endpoint has sent, and until
 * then the frontend still receives. Every way to `closed` releases whatever the connection holds; what
 * waits at the frontend still counts, see {@link Connection.frontendGone}.
 */
export class Connection implements FlowOwner, HalfClosed {
  readonly request: DialRequest;

  readonly #keeper: DialKeeper;
  /** Another one may be asked while the dial goes on; then it is this one to the end. */
  #tunnel = NO_TUNNEL;
  #wireDialId: DialId;
  readonly #frontend: FrontendEnd;
  readonly #ports: ConnectionPorts;
  readonly #record: ConnectionRecord;
  #state: "dialing" | "open" | "closing" | "closed" = "dialing";
  #connectionId = 0 as ConnectionId;
  /** From when the dial is answered. */
  #flow: Flow | undefined;
  #ends: AgentEnds | undefined;
  /** Why the connection closes, once somebody has begun to close it. */
  #closeReason: CloseReason | undefined;
  #clientFinished = false;
  #endpointFinished = false;
  /** Whether nobody waits for what the endpoint still sends: it is over once CLOSE_REQ is sent. */
  #isAbandoned = false;
  /** Of a connection that one side has finished, or that is abandoned. */
  #halfCloseWatch: HalfCloseWatch | undefined;

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
    this.#record = new ConnectionRecord(this, ports);
  }

  /** The agent's id of the connection; 0 before the dial is answered. */
  get connectionId(): ConnectionId {
    return this.#connectionId;
  }

  /** The dial id towards the agent: the frontend's, unless another dial of the tunnel has it. */
  get wireDialId(): DialId {
    return this.#wireDialId;
  }

  /** Who is asked, or carries it; empty while nobody is asked. */
  get agentId(): string {
    return this.#tunnel.agentId;
  }

  get address(): string {
    return this.request.address;
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
    this.#record.dialFailed(reason, "error" in failure ? failure.error : undefined);
    this.#release();
    this.#frontend.dialFailed(failure);
  }

  // Called by the frontend

  /**
   * Pass bytes to the endpoint; only while the connection is open. The caller leaves them alone from
   * now on.
   *
   * @returns false when enough waits; `agentReady` follows.
   */
  send(piece: Buffer): boolean {
    if (this.#state !== "open" || this.#clientFinished || this.#flow === undefined) return true;
    this.#record.toAgent(piece.length);
    const isRoomLeft = this.#flow.send(piece);
    this.#halfCloseWatch?.touch();
    return isRoomLeft;
  }

  /**
   * So many bytes of what the frontend received have gone on to the client. They may do so when the
   * connection is over.
   */
  taken(bytes: number): void {
    const flow = this.#flow;
    // What an abandoned connection had was taken at once.
    if (flow === undefined || bytes > flow.untakenBytes) return;
    flow.taken(bytes);
    this.#halfCloseWatch?.touch();
  }

  /**
   * The client has finished sending, behind what was sent; the endpoint may go on. False where the
   * agent cannot be told that: then the connection has to be closed.
   */
  finish(): boolean {
    if (!this.#tunnel.hasHalfClose) return false;
    if (this.#state !== "open" || this.#clientFinished) return true;
    this.#clientFinished = true;
    this.#ends?.finish();
    this.#closeReason ??= "client_closed";
    if (this.#endpointFinished) this.#state = "closing";
    this.#watchHalfClosed();
    return true;
  }

  /**
   * Close behind what was sent, but go on receiving until the agent confirms; the frontend is told
   * by `closed`.
   */
  requestClose(reason: CloseReason): void {
    if (this.#state !== "open") return;
    this.#state = "closing";
    this.#closeReason ??= reason;
    this.#watchHalfClosed();
    this.#sendCloseRequest();
  }

  /** The frontend has no more use for the connection, or for the dial. Idempotent. */
  abandon(reason: CloseReason): void {
    if (this.#state === "dialing") {
      this.#tunnel.send({ type: PacketType.DIAL_CLS, dialId: this.wireDialId });
      this.#record.dialFailed("frontend_close");
      this.#release();
      return;
    }
    if (this.#state === "closed") return;
    if (reason !== "client_closed") {
      this.#ends?.reset(reason);
      this.#close(reason, "");
      return;
    }
    if (this.#isAbandoned) return;
    // What the client sent still has to arrive; nobody wants what comes back.
    this.#isAbandoned = true;
    this.#state = "closing";
    this.#closeReason ??= reason;
    this.taken(this.#flow?.untakenBytes ?? 0);
    if (this.#ends?.isCloseSent === true) {
      this.#closeAbandoned();
      return;
    }
    this.#watchHalfClosed();
    this.#sendCloseRequest();
  }

  /**
   * The frontend is gone, and with it what waited there: of a connection that is over, that counts
   * towards the budgets of windows until it is {@link taken}, or until this is called. Idempotent.
   */
  frontendGone(): void {
    if (this.#state === "closed") this.#flow?.close();
  }

  // Called by the tunnel

  /** The agent has reached the endpoint. */
  dialed(connectionId: ConnectionId): void {
    if (this.#state !== "dialing") return;
    this.#state = "open";
    this.#keeper.dialOver();
    this.#connectionId = connectionId;
    this.#flow = this.#tunnel.established(this);
    this.#ends = new AgentEnds(this.#flow, this.#tunnel);
    this.#record.opened();
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
    if (!this.#endpointFinished) this.#flow?.receive(piece);
  }

  /** The agent takes so many bytes more. */
  addCredit(bytes: number): void {
    this.#flow?.addCredit(bytes);
    this.#halfCloseWatch?.touch();
  }

  /** The endpoint has finished sending. */
  endpointFinished(): void {
    if (this.#state !== "open" || this.#endpointFinished) return;
    this.#endpointFinished = true;
    this.#closeReason ??= "endpoint_closed";
    if (this.#frontend.finish()) {
      if (this.#clientFinished) this.#state = "closing";
      this.#watchHalfClosed();
    } else {
      // A full close is the most that this frontend knows.
      this.#ends?.closeNow();
      this.#close(this.#closeReason, "");
    }
  }

  /** The agent has closed the connection; `error` is empty if that was orderly. */
  closedByAgent(error: string): void {
    // An agent of ours watches half-closed endpoints for us, and says so in these words.
    if (error === HALF_CLOSE_TIMEOUT) this.#close("half_close_timeout", error);
    else if (error !== "") this.#close("endpoint_error", error);
    else this.#close(this.#closeReason ?? "endpoint_closed", "");
  }

  /** The tunnel has ended, by itself or because this server stops. */
  tunnelLost(reason: "agent_lost" | "shutdown"): void {
    if (this.#state !== "dialing") this.#close(reason, TUNNEL_LOST_TEXT[reason]);
    else if (reason === "shutdown") this.dialFailed({ kind: "agentLost" }, "backend_close");
    else this.#agentFailed({ kind: "agentLost" }, "backend_close");
  }

  // FlowOwner

  flowReceived(piece: Buffer): void {
    this.#record.fromAgent(piece.length);
    this.#halfCloseWatch?.touch();
    if (this.#isAbandoned) {
      recycledMemory.release(piece);
      this.taken(piece.length);
      return;
    }
    const { clock, metrics } = this.#ports;
    const beforeMs = clock.now();
    this.#frontend.receive(piece);
    metrics.frontendWrote((clock.now() - beforeMs) / 1000);
  }

  flowReady(): void {
    if (this.#state === "open") this.#frontend.agentReady();
  }

  flowOverrun(): void {
    this.#end("protocol_error");
  }

  flowSeemsStalled(): void {
    this.#frontend.reportTaken();
  }

  flowStalled(): void {
    this.#end("slow_consumer");
  }

  // HalfClosed

  waitsFor(): WaitsFor {
    const { queuedBytes = 0, untakenBytes = 0 } = this.#flow ?? {};
    if (untakenBytes > 0) return "others";
    if (queuedBytes > 0) return "agent";
    return this.#clientFinished || this.#state === "closing" ? "others" : "client";
  }

  stoodStill(waitedFor: WaitsFor): void {
    if (waitedFor === "agent") {
      this.#end("half_close_timeout");
    } else {
      // The client has had everything, its end included. Only the endpoint misses something.
      this.#ends?.reset(HALF_CLOSE_TIMEOUT);
      this.#close("half_close_timeout", "");
    }
  }

  #sendCloseRequest(): void {
    this.#ends?.close(() => {
      if (this.#isAbandoned) this.#closeAbandoned();
    });
  }

  /** CLOSE_REQ is sent, and nobody waits for the answer. */
  #closeAbandoned(): void {
    this.#ends?.wantNoMore();
    this.#close(this.#closeReason ?? "client_closed", "");
  }

  #watchHalfClosed(): void {
    if (this.#flow === undefined) return;
    const { clock, halfCloseTimeoutMs } = this.#ports;
    this.#halfCloseWatch ??= new HalfCloseWatch(clock, halfCloseTimeoutMs, this.#flow, this);
    this.#halfCloseWatch.start();
  }

  /** End the connection on our own account, both ways. */
  #end(reason: keyof typeof OUR_REASON_TEXT): void {
    if (this.#state === "closed") return;
    this.#ends?.reset(OUR_REASON_TEXT[reason]);
    this.#close(reason, OUR_REASON_TEXT[reason]);
  }

  /** The dial failed through no fault of the endpoint's: another agent may do better. */
  #agentFailed(failure: DialFailure, reason: DialFailureReason): void {
    if (this.#state !== "dialing") return;
    this.#tunnel.forget(this);
    if (!this.#keeper.askAnother(reason)) this.dialFailed(failure, reason);
  }

  /** The connection is over, whoever ended it. */
  #close(reason: CloseReason, error: string): void {
    if (this.#state === "closed") return;
    this.#record.closed(reason, error);
    this.#release();
    this.#frontend.closed(reason, error);
  }

  #release(): void {
    if (this.#state === "dialing") this.#keeper.dialOver();
    this.#state = "closed";
    this.#halfCloseWatch?.stop();
    // What the client has not taken yet is still held by the frontend.
    this.#flow?.retire();
    this.#tunnel.forget(this);
    this.#ports.connectionEnded();
  }
}
