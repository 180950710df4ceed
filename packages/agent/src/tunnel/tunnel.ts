import { PacketType, TUNNEL_EXTENSIONS, TunnelFlows, namedExtensions } from "@reachback/common";
import type {
  Carrier,
  ConnectionId,
  ControlPacket,
  DialId,
  DialRequestPacket,
  Flow,
  GrpcClientHandler,
  GrpcStatus,
  HeaderList,
} from "@reachback/common";
import { EndpointConnection } from "../endpoint/endpoint-connection.ts";
import type { ConnectionPorts, ConnectionTunnel } from "../endpoint/endpoint-connection.ts";
import { MAX_QUEUED_BYTES } from "../limits.ts";

/** What a tunnel tells its owner. */
export interface TunnelOwner {
  /** The server has accepted the tunnel; its initial metadata. */
  tunnelOpened(metadata: HeaderList): void;
  /** The server is about to leave; until it does, the tunnel works as before. */
  serverDraining(): void;
  /** The tunnel is over, or was refused. Called exactly once. */
  tunnelClosed(status: GrpcStatus): void;
  /** A connection is gone; perhaps the last. */
  connectionGone(): void;
}

/** One tunnel, as the agent sees it: dials endpoints for a server and carries their bytes. */
export class Tunnel implements GrpcClientHandler, ConnectionTunnel {
  readonly #ports: ConnectionPorts;
  readonly #owner: TunnelOwner;
  #carrier: Carrier | undefined;
  #nextConnectionId = 1;
  #drainSent = false;
  #isEnded = false;
  readonly #dials = new Map<DialId, EndpointConnection>();
  /** Connections that the server knows. */
  readonly #connections = new Map<ConnectionId, EndpointConnection>();
  /** Everything that is not gone yet: dials, connections, sockets that are finishing. */
  readonly #all = new Set<EndpointConnection>();
  #flows: TunnelFlows | undefined;
  #hasHalfClose = false;
  #hasServerDrain = false;
  #turnsAway = false;

  constructor(owner: TunnelOwner, ports: ConnectionPorts) {
    this.#owner = owner;
    this.#ports = ports;
  }

  /** Give the tunnel its carrier, before anything else happens. */
  attach(carrier: Carrier): void {
    this.#carrier = carrier;
  }

  /** Connections that the server knows. */
  get connectionCount(): number {
    return this.#connections.size;
  }

  /** Whether nothing is being dialed, carried or finished. */
  get isIdle(): boolean {
    return this.#all.size === 0;
  }

  /** Whether the server turns away further attempts to open a tunnel to it, if asked. */
  get turnsAway(): boolean {
    return this.#turnsAway;
  }

  /** Ask the server for no new connections, once; those that are open live on. */
  drain(): void {
    if (this.#drainSent) return;
    this.#drainSent = true;
    this.send({ type: PacketType.DRAIN });
  }

  /**
   * End the tunnel, and every connection with it: the server closes its side of them when it sees
   * that the tunnel has ended. Idempotent.
   */
  end(): void {
    this.#isEnded = true;
    for (const connection of [...this.#all]) connection.abandon();
    this.#carrier?.end();
  }

  // ConnectionTunnel

  send(packet: ControlPacket): void {
    this.#carrier?.send(packet);
  }

  get hasHalfClose(): boolean {
    return this.#hasHalfClose;
  }

  get canHoldMore(): boolean {
    // A server that counts credit is never held up, and a look at everybody costs much.
    if (this.#flows?.hasCredit === true) return true;
    let queuedBytes = 0;
    for (const { queuedBytes: bytes } of this.#all) queuedBytes += bytes;
    return queuedBytes <= MAX_QUEUED_BYTES;
  }

  established(connection: EndpointConnection): Flow {
    this.#forgetDial(connection);
    this.#connections.set(connection.connectionId, connection);
    if (this.#flows === undefined) throw new Error("a dial before the tunnel was open");
    return this.#flows.open(connection.connectionId, connection);
  }

  connectionClosed(connection: EndpointConnection): void {
    this.#connections.delete(connection.connectionId);
  }

  forget(connection: EndpointConnection): void {
    this.#forgetDial(connection);
    this.connectionClosed(connection);
    this.#all.delete(connection);
    this.#owner.connectionGone();
  }

  // GrpcClientHandler

  opened(metadata: HeaderList): void {
    const carrier = this.#carrier;
    if (carrier === undefined) throw new Error("a tunnel was opened that nobody asked for");
    const extensions = namedExtensions(metadata, TUNNEL_EXTENSIONS);
    this.#hasHalfClose = extensions.has("half-close");
    this.#hasServerDrain = extensions.has("server-drain");
    this.#turnsAway = extensions.has("turn-away");
    const { limits, budget } = this.#ports.flow;
    const hasCredit = extensions.has("flow-control");
    this.#flows = new TunnelFlows(carrier, hasCredit, limits, budget, this.#ports.clock);
    this.#owner.tunnelOpened(metadata);
  }

  control(packet: ControlPacket): void {
    switch (packet.type) {
      case PacketType.DIAL_REQ:
        this.#dial(packet);
        return;
      case PacketType.CLOSE_REQ:
        this.#closeRequest(packet.connectionId);
        return;
      case PacketType.DIAL_CLS:
        this.#dials.get(packet.dialId)?.cancelDial();
        return;
      case PacketType.CREDIT:
        this.#connections.get(packet.connectionId)?.addCredit(packet.bytes);
        return;
      case PacketType.FINISH:
        this.#connections.get(packet.connectionId)?.serverFinished();
        return;
      case PacketType.RESET:
        this.#connections.get(packet.connectionId)?.resetRequested();
        return;
      case PacketType.DRAIN:
        if (this.#hasServerDrain) this.#owner.serverDraining();
        return;
      case PacketType.DIAL_RSP:
      case PacketType.CLOSE_RSP:
        // Not for an agent to receive.
        return;
    }
  }

  data(connectionId: ConnectionId, piece: Buffer, first: boolean): void {
    const connection = this.#connections.get(connectionId);
    if (connection !== undefined) connection.receive(piece);
    else if (connectionId !== 0 && first) this.#sendClosed(connectionId, "unrecognized connectID");
  }

  sent(): void {
    // What matters here is room for more, see drained().
  }

  drained(): void {
    this.#flows?.drained();
  }

  ended(): void {
    // The server's status follows.
  }

  closed(status: GrpcStatus): void {
    this.#isEnded = true;
    for (const connection of [...this.#all]) connection.tunnelLost();
    this.#owner.tunnelClosed(status);
  }

  #dial(packet: DialRequestPacket): void {
    // The server has not seen yet that nobody will answer.
    if (this.#isEnded) return;
    // Counted for failed dials too, as upstream does.
    const connectionId = this.#nextConnectionId++ as ConnectionId;
    const connection = new EndpointConnection(connectionId, packet, this, this.#ports);
    this.#all.add(connection);
    this.#dials.set(packet.dialId, connection);
    void connection.dial(packet.protocol);
  }

  #closeRequest(connectionId: ConnectionId): void {
    const connection = this.#connections.get(connectionId);
    if (connection !== undefined) connection.closeRequested();
    else this.#sendClosed(connectionId, "Unknown connectID");
  }

  #sendClosed(connectionId: ConnectionId, error: string): void {
    this.send({ type: PacketType.CLOSE_RSP, connectionId, error });
  }

  #forgetDial(connection: EndpointConnection): void {
    if (this.#dials.get(connection.dialId) === connection) this.#dials.delete(connection.dialId);
  }
}
