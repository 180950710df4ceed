import type { Socket } from "node:net";
import {
  FLOW_CONTROL_VIOLATED,
  HALF_CLOSE_TIMEOUT,
  PacketType,
  SilenceWatch,
  SocketEnd,
  systemErrorText,
} from "@reachback/common";
import type {
  Clock,
  ConnectionId,
  ControlPacket,
  DialId,
  DialRequestPacket,
  Flow,
  FlowOwner,
  FlowPorts,
  SocketEndLimits,
} from "@reachback/common";
import type { CloseReason } from "./close-reason.ts";
import { ConnectionRecord } from "./connection-record.ts";
import type { RecordPorts } from "./connection-record.ts";
import { DialError } from "./dial-error.ts";
import type { EndpointDialer } from "./endpoint-dialer.ts";
import { ServerEnds } from "./server-ends.ts";

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
export interface ConnectionPorts extends RecordPorts {
  readonly clock: Clock;
  readonly dialer: EndpointDialer;
  readonly socketLimits: SocketEndLimits;
  readonly flow: FlowPorts;
  /** Silence after which a half-closed connection is reset, in milliseconds; 0 for never. */
  readonly halfCloseTimeoutMs: number;
}

/** What a server that has reset a connection is answered. */
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
  readonly address: string;

  readonly #tunnel: ConnectionTunnel;
  readonly #ports: ConnectionPorts;
  readonly #record: ConnectionRecord;
  readonly #dialAbort = new AbortController();
  #state: "dialing" | "open" | "flushing" | "finishing" | "gone" = "dialing";
  #socket: Socket | undefined;
  #endpoint: SocketEnd | undefined;
  /** From when the endpoint is reached. */
  #flow: Flow | undefined;
  #ends: ServerEnds | undefined;
  #serverFinished = false;
  #endpointFinished = false;
  /** Whether the endpoint is not read because the server takes no more. */
  #isPaused = false;
  /** Watches a connection that the server has finished. */
  #silence: SilenceWatch | undefined;

  constructor(
    connectionId: ConnectionId,
    request: DialRequestPacket,
    tunnel: ConnectionTunnel,
    ports: ConnectionPorts,
  ) {
    this.connectionId = connectionId;
    this.dialId = request.dialId;
    this.address = request.address;
    this.#tunnel = tunnel;
    this.#ports = ports;
    this.#record = new ConnectionRecord(this, ports);
  }

  /** Dial the endpoint and answer the server. Never rejects. */
  async dial(protocol: string): Promise<void> {
    const { clock, dialer } = this.#ports;
    const startedAtMs = clock.now();
    let socket: Socket;
    try {
      socket = await dialer.dial(protocol, this.address, this.#dialAbort.signal);
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

  /**
   * The server wants the connection closed, behind what it has sent. If it says so again, or about a
   * connection that is closing, it wants nothing more of the endpoint either.
   */
  closeRequested(): void {
    if (this.#state === "finishing") this.#ends?.closeNow();
    else if (this.#state === "flushing") this.#flow?.dropQueued();
    else if (this.#state === "open") this.#flush("server_closed");
  }

  /** The server's client is gone: the endpoint sees a reset, behind what was sent. */
  resetRequested(): void {
    if (this.#state === "finishing") this.#ends?.closeNow();
    if (this.#state !== "open" && this.#state !== "flushing") return;
    this.#close("server_reset", RESET_BY_SERVER);
    this.#ends?.closeNow();
    this.#endpoint?.resetBehindData();
  }

  /** The tunnel has ended: the endpoint must not take what it got for all there was. */
  tunnelLost(): void {
    if (this.#state === "dialing") {
      this.cancelDial();
    } else if (this.#state === "open" || this.#state === "flushing") {
      this.#ended("tunnel_lost", "");
      this.#ends?.lost();
      this.#endpoint?.reset();
    } else if (this.#state === "finishing") {
      this.#ends?.lost();
    }
  }

  /** The agent exits: let go of the socket now. Only an endpoint that has got all sees an end. */
  abandon(): void {
    this.tunnelLost();
    if (this.queuedBytes > 0) this.#endpoint?.reset();
    else this.#socket?.destroy();
  }

  // FlowOwner

  flowReceived(piece: Buffer): void {
    this.#record.toEndpoint(piece.length);
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

  flowSeemsStalled(): void {
    this.#endpoint?.reportTaken();
  }

  flowStalled(): void {
    this.#cut("slow_consumer", `write tcp ${this.address}: i/o timeout`);
  }

  #dialed(socket: Socket, dialMs: number): void {
    if (this.#state !== "dialing") {
      socket.destroy();
      return;
    }
    this.#state = "open";
    this.#socket = socket;
    this.#flow = this.#tunnel.established(this);
    this.#ends = new ServerEnds(this.#flow, () => {
      this.#told();
    });
    this.#record.opened(dialMs);
    // The answer is queued before the endpoint's first byte can be.
    this.#tunnel.send({
      type: PacketType.DIAL_RSP,
      dialId: this.dialId,
      connectionId: this.connectionId,
      error: "",
    });
    const { clock, socketLimits } = this.#ports;
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
    const failure =
      error instanceof DialError ? error : new DialError(`dial tcp: ${String(error)}`);
    this.#record.dialFailed(failure);
    this.#tunnel.send({
      type: PacketType.DIAL_RSP,
      dialId: this.dialId,
      connectionId: 0 as ConnectionId,
      error: failure.message,
    });
    this.#gone();
  }

  #fromEndpoint(piece: Buffer): void {
    if (this.#flow === undefined) return;
    this.#record.fromEndpoint(piece.length);
    this.#silence?.touch();
    if (this.#flow.send(piece)) return;
    this.#isPaused = true;
    this.#endpoint?.pauseReading();
  }

  #endpointEnded(): void {
    if (this.#state !== "open") return;
    this.#endpointFinished = true;
    if (!this.#tunnel.hasHalfClose) {
      this.#close("endpoint_closed", "");
      this.#endpoint?.close();
    } else if (this.#serverFinished) {
      this.#flush("endpoint_closed");
    } else {
      this.#ends?.finish();
    }
  }

  /** Write what the server sent, then tell it that the connection is closed. */
  #flush(reason: CloseReason): void {
    this.#state = "flushing";
    this.#silence?.stop();
    this.#endpoint?.close((complete) => {
      // Otherwise its end follows, and says why.
      if (complete) this.#close(reason, "");
    });
    // A full socket drains by itself now, and the server need not wait for it, unless too much has
    // come together: then it waits until the connection is closed.
    this.#flow?.noMoreComes(this.#tunnel.canHoldMore);
  }

  /** Watch an endpoint that has been told the client's end and has not finished itself. */
  #watchSilence(): void {
    const { clock, halfCloseTimeoutMs } = this.#ports;
    this.#silence ??= new SilenceWatch(clock, () => {
      this.#silent();
    });
    this.#silence.start(halfCloseTimeoutMs);
  }

  #silent(): void {
    if (this.#isPaused) {
      // It has to wait for a client that reads slowly.
      this.#watchSilence();
      return;
    }
    this.#close("half_close_timeout", HALF_CLOSE_TIMEOUT);
    // It may still be reading what it was sent; but if it takes nothing, there is no use.
    if (this.queuedBytes > 0) this.#endpoint?.reset();
    else this.#endpoint?.close();
  }

  /** End the connection at once on our own account: both sides see that it was no orderly end. */
  #cut(reason: CloseReason, error: string): void {
    this.#close(reason, error);
    this.#ends?.closeNow();
    this.#endpoint?.reset();
  }

  #socketClosed(error: Error | undefined): void {
    if (error !== undefined) {
      const { syscall = "read" } = error as NodeJS.ErrnoException;
      const reason = `${syscall} tcp ${this.address}: ${syscall}: ${systemErrorText(error)}`;
      this.#close("endpoint_error", reason);
    } else if (this.#state === "flushing") {
      this.#close("endpoint_stalled", `write tcp ${this.address}: i/o timeout`);
    } else {
      this.#close("endpoint_error", `read tcp ${this.address}: closed`);
    }
    if (this.#ends?.isTold === true) this.#gone();
    else this.#socket = undefined;
  }

  /** Tell the server that the connection is closed, behind all data of the endpoint. */
  #close(reason: CloseReason, error: string): void {
    if (this.#state !== "open" && this.#state !== "flushing") return;
    this.#ended(reason, error);
    this.#flow?.noMoreComes();
    this.#ends?.close(error);
  }

  /** The server knows that the connection is closed, or never will. */
  #told(): void {
    this.#flow?.close();
    this.#tunnel.connectionClosed(this);
    // The socket may have gone before.
    if (this.#socket === undefined) this.#gone();
  }

  #ended(reason: CloseReason, error: string): void {
    this.#state = "finishing";
    this.#silence?.stop();
    this.#record.closed(reason, error);
  }

  #gone(): void {
    this.#state = "gone";
    this.#tunnel.forget(this);
  }
}
