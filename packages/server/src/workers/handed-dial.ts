import { GrpcCode, PacketType, TunnelFlows } from "@reachback/common";
import type {
  Carrier,
  ConnectionId,
  ControlPacket,
  DialResponsePacket,
  Flow,
  FlowPorts,
  GrpcClientHandler,
  Clock,
} from "@reachback/common";
import type { Connection, ConnectionTunnel } from "../dial/connection.ts";
import { dialFailureOf } from "../frontend/dial-error-text.ts";
import { HANDED_QUEUE_BYTES } from "../limits.ts";

/** What the owner of a handed dial is told. */
export interface HandedDialOwner {
  /** The agent has answered, as the neighbour says. */
  answered(): void;
  /** The agent has given the dial up without an answer. */
  dropped(): void;
  /** The connection is done with it. Called once. */
  over(): void;
}

/** A dial that was handed to a neighbour: a `Proxy` stream to it, and the connection at this end. */
export class HandedDial implements GrpcClientHandler, ConnectionTunnel {
  readonly agentId: string;
  readonly hasHalfClose = true;
  readonly #connection: Connection;
  readonly #flowPorts: FlowPorts;
  readonly #clock: Clock;
  readonly #owner: HandedDialOwner;
  #carrier: Carrier | undefined;
  #flows: TunnelFlows | undefined;
  /** What was sent before there was a carrier. */
  #early: ControlPacket[] = [];
  #isOver = false;
  /** This end has failed: the stream's end must not look like the client's. */
  #isLost = false;

  constructor(
    agentId: string,
    connection: Connection,
    flowPorts: FlowPorts,
    clock: Clock,
    owner: HandedDialOwner,
  ) {
    this.agentId = agentId;
    this.#connection = connection;
    this.#flowPorts = flowPorts;
    this.#clock = clock;
    this.#owner = owner;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The way to the neighbour is there. */
  attach(carrier: Carrier): void {
    this.#carrier = carrier;
    const { limits, budget } = this.#flowPorts;
    // HTTP/2 paces each stream, so that nobody else waits for one that is not read.
    const paced = { ...limits, queueBytes: HANDED_QUEUE_BYTES, stallTimeoutMs: 0 };
    this.#flows = new TunnelFlows(carrier, false, paced, budget, this.#clock);
    for (const packet of this.#early) carrier.send(packet);
    this.#early = [];
  }

  /** The neighbour is gone, or there is no way to it; or this server stops. */
  lost(reason: "agent_lost" | "shutdown"): void {
    if (this.#isOver) return;
    this.#isLost = true;
    this.#connection.tunnelLost(reason);
  }

  // ConnectionTunnel

  send(packet: ControlPacket): void {
    if (this.#carrier === undefined) this.#early.push(packet);
    else this.#carrier.send(packet);
  }

  established(connection: Connection): Flow {
    if (this.#flows === undefined) throw new Error("a dial was answered without a stream");
    return this.#flows.open(connection.connectionId, connection);
  }

  forget(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#isLost) this.#carrier?.abort({ code: GrpcCode.CANCELLED, message: "lost" });
    else this.#carrier?.end();
    // What still comes is dropped, but the neighbour must be able to get rid of it.
    this.#carrier?.resumeReading();
    this.#owner.over();
  }

  // GrpcClientHandler

  opened(): void {
    // Both ends are of one version.
  }

  control(packet: ControlPacket): void {
    if (this.#isOver) return;
    switch (packet.type) {
      case PacketType.DIAL_RSP:
        this.#dialResponse(packet);
        return;
      case PacketType.DIAL_CLS:
        this.#owner.dropped();
        this.#connection.dialDropped();
        return;
      case PacketType.CLOSE_RSP:
        this.#connection.closedByAgent(packet.error);
        return;
      case PacketType.FINISH:
        this.#connection.endpointFinished();
        return;
      case PacketType.RESET:
      case PacketType.DIAL_REQ:
      case PacketType.CLOSE_REQ:
      case PacketType.DRAIN:
      case PacketType.CREDIT:
        // Not for a frontend to receive.
        return;
    }
  }

  data(_connectionId: ConnectionId, piece: Buffer): void {
    if (!this.#isOver) this.#connection.receive(piece);
  }

  sent(): void {
    // What matters here is room for more, see drained().
  }

  drained(): void {
    this.#flows?.drained();
  }

  ended(): void {
    // The status follows.
  }

  closed(): void {
    this.lost("agent_lost");
  }

  #dialResponse({ error, connectionId }: DialResponsePacket): void {
    if (error === "") {
      this.#owner.answered();
      this.#connection.dialed(connectionId);
      return;
    }
    const failure = dialFailureOf(error);
    switch (failure.kind) {
      case "refused":
        this.#owner.answered();
        this.#connection.dialRefused(error);
        return;
      case "limit":
        this.#connection.dialFailed(failure, "agent_connections_limit");
        return;
      case "timeout":
        this.#connection.dialUnanswered();
        return;
      case "noAgent":
      case "agentLost":
        // It had one when it was asked.
        this.#connection.tunnelLost("agent_lost");
        return;
    }
  }
}
