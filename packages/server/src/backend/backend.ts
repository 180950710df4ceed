import { OK_STATUS, PacketType, TunnelFlows } from "@reachback/common";
import type {
  AgentIdentifiers,
  CarrierHandler,
  ConnectionId,
  ControlPacket,
  DialId,
  DialResponsePacket,
  Extension,
  Flow,
  FlowPorts,
  GrpcStatus,
  Random,
  ServerCarrier,
} from "@reachback/common";
import type { Connection } from "../dial/connection.ts";
import type { ConnectionPorts, ConnectionTunnel } from "../dial/connection.ts";
import type { Candidate, Standing } from "./candidate.ts";
import { UNREAD_ANSWERS_BYTES } from "../limits.ts";
import { DialHealth } from "./dial-health.ts";

/** What weighs as much as one dial that is waiting. */
const QUEUED_BYTES_PER_DIAL = 64 * 1024;

/** What a backend tells its owner. */
export interface BackendOwner {
  /** The agent asks for no more dials than it must have. */
  backendDraining(backend: Backend): void;

  /** The tunnel is about to end: it takes no more dials. May come more than once. */
  backendLeaving(backend: Backend): void;

  /** The tunnel is over. Called exactly once. */
  backendClosed(backend: Backend, status: GrpcStatus): void;
}

/**
 * One tunnel, as the server sees it. An agent may have several; each is a world of its own: dials
 * and connections are found by the tunnel that carries them and their id in it, never by an agent's
 * name, so tunnels of one agent cannot mix.
 */
export class Backend implements CarrierHandler, ConnectionTunnel, Candidate {
  readonly agentId: string;
  readonly identifiers: AgentIdentifiers;
  readonly hasHalfClose: boolean;
  lastChosen = 0;

  readonly #extensions: ReadonlySet<Extension>;
  readonly #flowPorts: FlowPorts;
  readonly #ports: ConnectionPorts;
  readonly #random: Random;
  readonly #owner: BackendOwner;
  #carrier: ServerCarrier | undefined;
  #flows: TunnelFlows | undefined;
  #draining = false;
  /** Whether a packet has come since {@link listen}. */
  #heard = true;
  readonly #health: DialHealth;
  readonly #openedAtMs: number;
  readonly #dials = new Map<DialId, Connection>();
  readonly #connections = new Map<ConnectionId, Connection>();

  /** @param extensions - What the agent knows beyond upstream's protocol. */
  constructor(
    agentId: string,
    identifiers: AgentIdentifiers,
    extensions: ReadonlySet<Extension>,
    owner: BackendOwner,
    ports: ConnectionPorts,
    flowPorts: FlowPorts,
    random: Random,
  ) {
    this.agentId = agentId;
    this.identifiers = identifiers;
    this.hasHalfClose = extensions.has("half-close");
    this.#extensions = extensions;
    this.#flowPorts = flowPorts;
    this.#owner = owner;
    this.#ports = ports;
    this.#random = random;
    this.#health = new DialHealth(ports.clock);
    this.#openedAtMs = ports.clock.now();
  }

  /** Give the backend the carrier of its tunnel, before anything else happens. */
  attach(carrier: ServerCarrier): void {
    this.#carrier = carrier;
    const hasCredit = this.#extensions.has("flow-control");
    const { limits, budget } = this.#flowPorts;
    this.#flows = new TunnelFlows(carrier, hasCredit, limits, budget, this.#ports.clock);
  }

  get standing(): Standing {
    const { state } = this.#health;
    // On trial, one dial is enough to find out.
    if (state === "failing" || (state === "trial" && this.#dials.size > 0)) return "failing";
    return this.#draining ? "draining" : "sound";
  }

  /** How busy the tunnel is, in dials: those in flight, bytes that wait, and recent failures. */
  get load(): number {
    const queuedBytes = this.#carrier?.queuedBytes ?? 0;
    return this.#dials.size + queuedBytes / QUEUED_BYTES_PER_DIAL + this.#health.recentFailures;
  }

  get ageMs(): number {
    return this.#ports.clock.now() - this.#openedAtMs;
  }

  /** A newer tunnel of the agent is there: this one has to say something to stay preferred. */
  listen(): void {
    this.#heard = false;
  }

  /** Whether nothing was heard from the agent since a newer tunnel of it came. */
  get isSilent(): boolean {
    return !this.#heard;
  }

  get pendingDialCount(): number {
    return this.#dials.size;
  }

  /** Connections and pending dials. */
  get heldCount(): number {
    return this.#dials.size + this.#connections.size;
  }

  get connectionCount(): number {
    return this.#connections.size;
  }

  /** Whether reading from the agent waits for a frontend. */
  get isReadingPaused(): boolean {
    return this.#flows?.isReadingPaused === true;
  }

  /** Ask the agent for a connection. */
  dial(connection: Connection): void {
    const { dialId } = connection.request;
    // Dial ids are chosen by frontends that do not know of each other; two of them may clash.
    const wireDialId = this.#dials.has(dialId) ? (this.#random.int63() as DialId) : dialId;
    this.#dials.set(wireDialId, connection);
    connection.ask(this, wireDialId);
  }

  /** The agent has not answered a dial that it was asked for at `askedAtMs`. */
  dialUnanswered(askedAtMs: number): void {
    this.#health.unanswered(askedAtMs);
  }

  /** Tell the agent that this server is about to leave, if it knows of such things. */
  announceLeave(): void {
    if (this.#extensions.has("server-drain")) this.send({ type: PacketType.DRAIN });
  }

  /** End the tunnel, because this server stops: every connection is closed, every dial fails. */
  end(): void {
    this.#end("shutdown");
  }

  // ConnectionTunnel

  send(packet: ControlPacket): void {
    this.#carrier?.send(packet);
  }

  established(connection: Connection): Flow {
    this.#dials.delete(connection.wireDialId);
    this.#connections.set(connection.connectionId, connection);
    if (this.#flows === undefined) throw new Error("a dial was answered without a tunnel");
    return this.#flows.open(connection.connectionId, connection);
  }

  forget(connection: Connection): void {
    if (this.#dials.get(connection.wireDialId) === connection) {
      this.#dials.delete(connection.wireDialId);
    }
    if (this.#connections.get(connection.connectionId) === connection) {
      this.#connections.delete(connection.connectionId);
    }
  }

  // CarrierHandler

  control(packet: ControlPacket): void {
    this.#heard = true;
    switch (packet.type) {
      case PacketType.DIAL_RSP:
        this.#dialResponse(packet);
        return;
      case PacketType.CLOSE_RSP:
        this.#connections.get(packet.connectionId)?.closedByAgent(packet.error);
        return;
      case PacketType.DIAL_CLS:
        this.#dialDropped(packet.dialId);
        return;
      case PacketType.DRAIN:
        if (this.#draining) return;
        this.#draining = true;
        this.#ports.logger.info("tunnel.draining", { agentId: this.agentId });
        this.#owner.backendDraining(this);
        return;
      case PacketType.CREDIT:
        this.#connections.get(packet.connectionId)?.addCredit(packet.bytes);
        return;
      case PacketType.FINISH:
        this.#connections.get(packet.connectionId)?.endpointFinished();
        return;
      case PacketType.RESET:
        this.#connections.get(packet.connectionId)?.closedByAgent(packet.error || "reset");
        return;
      case PacketType.DIAL_REQ:
      case PacketType.CLOSE_REQ:
        // Not for a server to receive from an agent.
        return;
    }
  }

  data(connectionId: ConnectionId, piece: Buffer, first: boolean): void {
    this.#heard = true;
    const connection = this.#connections.get(connectionId);
    if (connection !== undefined) {
      connection.receive(piece);
    } else if (connectionId !== 0 && first) {
      // Nobody wants it any more: the agent may close it.
      this.#closeUnknown(connectionId);
    }
  }

  sent(): void {
    // What matters here is room for more, see drained().
  }

  drained(): void {
    this.#flows?.drained();
  }

  ended(): void {
    this.#end("agent_lost");
  }

  closed(status: GrpcStatus): void {
    this.#owner.backendLeaving(this);
    this.#loseConnections("agent_lost");
    if (status.code !== OK_STATUS.code) {
      this.#ports.metrics.streamFailed("from_agent", status.code);
    }
    this.#owner.backendClosed(this, status);
  }

  #dialResponse(packet: DialResponsePacket): void {
    const connection = this.#dials.get(packet.dialId);
    if (connection === undefined) {
      this.#health.answeredLate();
      this.#ports.metrics.dialFailed("unrecognized_response");
      // A late success: nobody waits for it, and the agent must not keep it open.
      if (packet.connectionId !== 0) this.#closeUnknown(packet.connectionId);
      return;
    }
    this.#health.answered();
    if (packet.error !== "") {
      connection.dialRefused(packet.error);
    } else if (packet.connectionId === 0 || this.#connections.has(packet.connectionId)) {
      connection.dialRefused(`agent answered with unusable connection id ${packet.connectionId}`);
    } else {
      connection.dialed(packet.connectionId);
    }
  }

  /** Answer what names a connection that is not here; as often as an agent likes, provided that it reads. */
  #closeUnknown(connectionId: ConnectionId): void {
    this.send({ type: PacketType.CLOSE_REQ, connectionId });
    const { queuedBytes = 0 } = this.#carrier ?? {};
    if (queuedBytes <= UNREAD_ANSWERS_BYTES) return;
    this.#ports.logger.warn("tunnel.unread", { agentId: this.agentId, queuedBytes });
    this.#carrier?.reset();
  }

  #dialDropped(dialId: DialId): void {
    const connection = this.#dials.get(dialId);
    if (connection === undefined) return;
    this.#health.dropped();
    connection.dialDropped();
  }

  #end(reason: "agent_lost" | "shutdown"): void {
    this.#owner.backendLeaving(this);
    this.#loseConnections(reason);
    this.#carrier?.end();
  }

  #loseConnections(reason: "agent_lost" | "shutdown"): void {
    for (const connection of [...this.#dials.values(), ...this.#connections.values()]) {
      connection.tunnelLost(reason);
    }
  }
}
