import {
  FRONTEND_EXTENSIONS,
  GrpcCode,
  OK_STATUS,
  PacketType,
  SilenceWatch,
  UPSTREAM_PIECE_BYTES,
  agreedExtensions,
  namedExtensions,
} from "@reachback/common";
import type {
  CarrierHandler,
  Clock,
  ConnectionId,
  ControlPacket,
  DialId,
  DialRequestPacket,
  GrpcMethod,
  GrpcStatus,
  ServerCarrier,
} from "@reachback/common";
import type { CloseReason } from "../dial/close-reason.ts";
import type { Connection } from "../dial/connection.ts";
import type { DialBroker } from "../dial/dial-broker.ts";
import { STUCK_MS, UNREAD_ANSWERS_BYTES } from "../limits.ts";
import type { ServerMetrics } from "../metrics.ts";
import { ProxyEnd } from "./proxy-end.ts";
import type { ProxyEndStream } from "./proxy-end.ts";

/** The gRPC frontend: `ProxyService.Proxy`, one stream per connection. */
export class GrpcFrontend {
  readonly #broker: DialBroker;
  readonly #metrics: ServerMetrics;
  readonly #clock: Clock;
  readonly #streams = new Set<ProxyStream>();

  constructor(broker: DialBroker, metrics: ServerMetrics, clock: Clock) {
    this.#broker = broker;
    this.#metrics = metrics;
    this.#clock = clock;
  }

  get streamCount(): number {
    return this.#streams.size;
  }

  readonly proxy: GrpcMethod = (call) => {
    const extensions = namedExtensions(call.metadata, FRONTEND_EXTENSIONS);
    const hasHalfClose = extensions.has("half-close");
    const stream = new ProxyStream(this.#broker, hasHalfClose, this.#clock, (status) => {
      this.#streams.delete(stream);
      if (status.code !== GrpcCode.OK) this.#metrics.streamFailed("from_client", status.code);
    });
    this.#streams.add(stream);
    const { toClient, fromClient } = this.#metrics.packets;
    const answer = agreedExtensions(call.metadata, extensions);
    stream.attach(
      call.accept(
        { sent: toClient, received: fromClient },
        stream,
        answer.length === 0 ? undefined : answer,
      ),
    );
    return undefined;
  };

  /** End every stream, behind what it was sent. */
  end(): void {
    for (const stream of [...this.#streams]) stream.end();
  }
}

/** What an agent would say to a CLOSE_REQ for a connection that it does not have. */
const UNKNOWN_CONNECTION = "Unknown connectID";

/**
 * One `Proxy` stream. What each packet does, and every text, is upstream's (PROTOCOL.md,
 * "Frontend streams"), with one difference: a frontend only ever reaches its own connections,
 * whatever ids it uses.
 */
class ProxyStream implements CarrierHandler, ProxyEndStream {
  readonly #broker: DialBroker;
  /** Whether the client knows FINISH and RESET. */
  readonly hasHalfClose: boolean;
  readonly #onClosed: (status: GrpcStatus) => void;
  #carrier: ServerCarrier | undefined;
  /** Dials and connections of this stream; one in practice. */
  readonly #ends = new Set<ProxyEnd>();
  /** Those that are over, while something that they received waits here. */
  readonly #passedEnds = new Set<ProxyEnd>();
  /** Whether the client takes what waits for it when nothing is open any more. */
  readonly #lastWords: SilenceWatch;
  #hasDialed = false;
  /** The connection that the first DATA was for: the only one that DATA may be for. */
  #dataId: ConnectionId | undefined;
  #dataConnection: Connection | undefined;
  /** The connection that the client has asked to close: it has said all that it had to say. */
  #closedByClient: Connection | undefined;
  /** After certain packets, everything else is read and dropped until the client ends the stream. */
  #deaf = false;
  #agentBusy = false;
  /** The client has ended the stream: nobody listens any more. */
  #over = false;

  constructor(
    broker: DialBroker,
    hasHalfClose: boolean,
    clock: Clock,
    onClosed: (status: GrpcStatus) => void,
  ) {
    this.#broker = broker;
    this.hasHalfClose = hasHalfClose;
    this.#onClosed = onClosed;
    this.#lastWords = new SilenceWatch(clock, () => {
      this.#carrier?.reset();
    });
  }

  attach(carrier: ServerCarrier): void {
    this.#carrier = carrier;
  }

  end(): void {
    this.#carrier?.end();
    this.#watchLastWords();
  }

  // CarrierHandler

  control(packet: ControlPacket): void {
    if (this.#deaf) return;
    switch (packet.type) {
      case PacketType.DIAL_REQ:
        this.#dial(packet);
        return;
      case PacketType.CLOSE_REQ:
        this.#closeRequest(packet.connectionId);
        return;
      case PacketType.DIAL_CLS:
        this.#dialClose(packet.dialId);
        return;
      case PacketType.FINISH:
        if (this.hasHalfClose) this.#finish(packet.connectionId);
        return;
      case PacketType.RESET:
        if (this.hasHalfClose) this.#connectionOf(packet.connectionId)?.abandon("client_lost");
        return;
      case PacketType.DIAL_RSP:
      case PacketType.CLOSE_RSP:
      case PacketType.DRAIN:
      case PacketType.CREDIT:
        return;
    }
  }

  data(connectionId: ConnectionId, piece: Buffer): void {
    if (this.#deaf) return;
    if (!this.#hasDialed) {
      this.#sendClosed(connectionId, "backend not initialized");
      this.#deaf = true;
      return;
    }
    if (connectionId === 0) return;
    this.#dataId ??= connectionId;
    if (connectionId !== this.#dataId) {
      this.#mismatch(connectionId, this.#dataId);
      return;
    }
    this.#dataConnection ??= this.#connectionOf(connectionId);
    if (this.#dataConnection?.send(piece) === false && !this.#agentBusy) {
      this.#agentBusy = true;
      this.#carrier?.pauseReading();
    }
  }

  sent(): void {
    const queuedBytes = this.#carrier?.queuedBytes ?? 0;
    for (const end of this.#ends) end.sent(queuedBytes);
    for (const end of this.#passedEnds) {
      end.sent(queuedBytes);
      if (!end.holdsBytes) this.#passedEnds.delete(end);
    }
    this.#lastWords.touch();
    this.#watchLastWords();
  }

  drained(): void {
    // What may wait here is limited by what each connection may send.
  }

  ended(): void {
    this.#abandonAll("client_closed");
    this.end();
  }

  closed(status: GrpcStatus): void {
    this.#abandonAll(status.code === OK_STATUS.code ? "client_closed" : "client_lost");
    for (const { connection } of this.#passedEnds) connection?.frontendGone();
    this.#passedEnds.clear();
    // A call that is aborted, by its deadline say, has a last word yet.
    this.#watchLastWords();
    this.#onClosed(status);
  }

  // For the ends

  sendControl(packet: ControlPacket): void {
    if (this.#over) return;
    this.#carrier?.send(packet);
    this.#watchLastWords();
  }

  sendData(connectionId: ConnectionId, piece: Buffer): void {
    for (let at = 0; at < piece.length; at += UPSTREAM_PIECE_BYTES) {
      this.#carrier?.sendData(connectionId, piece.subarray(at, at + UPSTREAM_PIECE_BYTES));
    }
  }

  agentReady(): void {
    if (!this.#agentBusy) return;
    this.#agentBusy = false;
    this.#carrier?.resumeReading();
  }

  forget(end: ProxyEnd): void {
    this.#ends.delete(end);
    if (end.holdsBytes) this.#passedEnds.add(end);
    this.#watchLastWords();
    if (this.#dataConnection === end.connection) this.#dataConnection = undefined;
    this.agentReady();
  }

  #dial(packet: DialRequestPacket): void {
    const end = new ProxyEnd(this, packet.dialId);
    this.#ends.add(end);
    this.#watchLastWords();
    const connection = this.#broker.dial(packet, end);
    if (connection === undefined) {
      this.#deaf = true;
      return;
    }
    end.connection = connection;
    this.#hasDialed = true;
  }

  #closeRequest(connectionId: ConnectionId): void {
    if (!this.#hasDialed) {
      this.#sendClosed(connectionId, "backend uninitialized");
      if ((this.#carrier?.queuedBytes ?? 0) > UNREAD_ANSWERS_BYTES) this.#carrier?.reset();
      return;
    }
    this.#deaf = true;
    const connection = this.#connectionOf(connectionId);
    this.#closedByClient = connection;
    if (connection !== undefined) connection.requestClose("client_closed");
    else if (connectionId !== this.#dataId) this.#sendClosed(connectionId, UNKNOWN_CONNECTION);
  }

  #finish(connectionId: ConnectionId): void {
    const connection = this.#connectionOf(connectionId);
    // What the endpoint has sent until it hears of that still arrives.
    if (connection?.finish() === false) connection.requestClose("client_closed");
  }

  #dialClose(dialId: DialId): void {
    for (const end of this.#ends) {
      if (end.dialId !== dialId) continue;
      // Perhaps it has just been answered: the client gave it up before it knew.
      end.connection?.abandon("client_closed");
      this.forget(end);
      return;
    }
  }

  /** DATA for a second connection: both are closed. */
  #mismatch(second: ConnectionId, first: ConnectionId): void {
    this.#deaf = true;
    for (const connectionId of [second, first]) {
      this.#connectionOf(connectionId)?.requestClose("protocol_error");
      this.#sendClosed(connectionId, "mismatched connection IDs");
    }
  }

  #sendClosed(connectionId: ConnectionId, error: string): void {
    this.sendControl({ type: PacketType.CLOSE_RSP, connectionId, error });
  }

  /** The stream's connection with this id; dials have none yet. */
  #connectionOf(connectionId: ConnectionId): Connection | undefined {
    for (const { connection } of this.#ends) {
      if (connection?.isDialing === false && connection.connectionId === connectionId) {
        return connection;
      }
    }
    return undefined;
  }

  /**
   * What an open connection may have waiting here is bounded by its window. Once nothing is open, the
   * client could leave it here for ever: then it has to take some of it now and then.
   */
  #watchLastWords(): void {
    const queuedBytes = this.#carrier?.queuedBytes ?? 0;
    if (this.#ends.size === 0 && queuedBytes > 0) this.#lastWords.start(STUCK_MS);
    else this.#lastWords.stop();
  }

  #abandonAll(reason: CloseReason): void {
    this.#over = true;
    for (const { connection } of [...this.#ends]) {
      // Go clients cancel the stream when a close takes them too long: nothing of it is lost by that.
      connection?.abandon(connection === this.#closedByClient ? "client_closed" : reason);
    }
    this.#ends.clear();
  }
}
