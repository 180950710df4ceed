import type { CancelTimer, Clock } from "../clock.ts";
import type { ConnectionId, ControlPacket } from "../packet/packet.ts";
import { PacketType } from "../packet/packet.ts";
import { PIECE_BYTES } from "../piece-bytes.ts";
import { recycledMemory } from "../recycled-memory.ts";
import { SendQueue } from "../send-queue.ts";
import { ReceiveWindow } from "./receive-window.ts";
import type { ReceiveWindowLimits } from "./receive-window.ts";
import type { Sender } from "./round-robin.ts";
import type { WindowBudget } from "./window-budget.ts";

/** The bounds of flows, in bytes and milliseconds. See LIMITS.md. */
export interface FlowLimits extends ReceiveWindowLimits {
  /** What the windows of one tunnel may grow by, together. */
  readonly tunnelWindowBytes: number;
  /** From an upstream peer, which knows no credit: bytes that may wait here for one connection. */
  readonly queueBytes: number;
  /** How long nothing may be taken of such a queue while it is full; 0 for ever. */
  readonly stallTimeoutMs: number;
}

/** What the owner of a flow is told. */
export interface FlowOwner {
  /**
   * Bytes from the peer, from `recycledMemory`. The owner reports with {@link Flow.taken} when they
   * have gone on.
   */
  flowReceived(piece: Buffer): void;

  /** The source may go on after {@link Flow.send} returned false. */
  flowReady(): void;

  /** The peer sent more than it had credit for: the connection must end. */
  flowOverrun(): void;

  /** Say now with {@link Flow.taken} what has gone on in part, if that is known; unless there is such, `flowStalled` follows. */
  flowSeemsStalled(): void;

  /** An upstream peer's bytes fill the queue and nothing is taken: the connection must end. */
  flowStalled(): void;
}

/** What a flow needs of the tunnel that it shares with others; see `TunnelFlows`. */
export interface FlowTunnel {
  readonly clock: Clock;
  readonly limits: FlowLimits;
  readonly hasCredit: boolean;
  readonly budget: WindowBudget;
  /** Whether the carrier takes more. */
  readonly hasRoom: boolean;
  /** Whether it does, and nobody waits to send. */
  readonly isClear: boolean;
  sendControl(packet: ControlPacket): void;
  sendData(connectionId: ConnectionId, payload: Buffer): void;
  /** `flow` has something to send: it takes its turn. */
  wantsToSend(flow: Flow): void;
  /** The source of `flow` waits for the carrier alone: {@link Flow.tellReady} when it takes more. */
  awaitRoom(flow: Flow): void;
  setFull(flow: Flow, isFull: boolean): void;
  forget(flow: Flow): void;
}

/** Bytes that may wait in a flow before its source has to. */
const SOURCE_STOP_BYTES = PIECE_BYTES;

/** Something that comes behind all data. */
interface Marker {
  readonly packet: ControlPacket;
  readonly sent: (() => void) | undefined;
}

/**
 * One connection's share of a tunnel, in both directions: what waits to be sent, in order and within
 * the credit that the peer gave; and what the peer may send.
 */
export class Flow implements Sender {
  readonly connectionId: ConnectionId;
  readonly #tunnel: FlowTunnel;
  readonly #owner: FlowOwner;

  readonly #queue = new SendQueue();
  #markers: Marker[] = [];
  #creditBytes: number;
  #isSourceWaiting = false;

  readonly #window: ReceiveWindow | undefined;
  /** Without credit: bytes received and not yet taken. */
  #waitingBytes = 0;
  #isFull = false;
  #isComplete = false;
  #cancelStallTimer: CancelTimer | undefined;
  #isClosed = false;

  constructor(connectionId: ConnectionId, tunnel: FlowTunnel, owner: FlowOwner) {
    this.connectionId = connectionId;
    this.#tunnel = tunnel;
    this.#owner = owner;
    if (tunnel.hasCredit) {
      this.#creditBytes = tunnel.limits.initialBytes;
      this.#window = new ReceiveWindow(tunnel.limits, tunnel.budget, tunnel.clock);
    } else {
      this.#creditBytes = Number.POSITIVE_INFINITY;
    }
  }

  /** Whether the peer counts credit, and so may be waiting for some. */
  get hasCredit(): boolean {
    return this.#window !== undefined;
  }

  /** Bytes that wait to be sent. */
  get queuedBytes(): number {
    return this.#queue.bytes;
  }

  /** Bytes that were received and not taken. */
  get untakenBytes(): number {
    return this.#window?.waitingBytes ?? this.#waitingBytes;
  }

  // Sending

  /**
   * Send `piece`, which is the caller's again afterwards, or queue it until it is its turn and there is credit.
   *
   * @returns false when the source has to wait; `flowReady` follows.
   */
  send(piece: Buffer): boolean {
    if (this.#isClosed) return true;
    const tunnel = this.#tunnel;
    if (tunnel.isClear && this.#queue.bytes === 0 && piece.length <= this.#creditBytes) {
      this.#creditBytes -= piece.length;
      tunnel.sendData(this.connectionId, recycledMemory.keep(piece));
    } else {
      this.#queue.push(recycledMemory.keep(piece));
      tunnel.wantsToSend(this);
    }
    if (!this.#hasRoom) this.#isSourceWaiting = true;
    else if (tunnel.hasRoom) return true;
    else tunnel.awaitRoom(this);
    return false;
  }

  /**
   * Send a packet behind everything that was sent before: an end of the connection, or of one way
   * of it. @param sent - Called when it has been handed to the carrier; not if the flow is closed
   * before.
   */
  sendBehind(packet: ControlPacket, sent?: () => void): void {
    if (this.#isClosed) return;
    this.#markers.push({ packet, sent });
    if (this.#queue.bytes === 0) this.#sendMarkers();
  }

  /**
   * Send a packet that ends the connection now: behind what credit there is for, the rest is
   * dropped, together with markers. An abort must not wait for a peer that takes nothing.
   */
  sendAbort(packet: ControlPacket): void {
    if (this.#isClosed) return;
    this.#markers = [];
    this.#sendUpTo(this.#creditBytes);
    this.#queue.clear();
    this.#tunnel.sendControl(packet);
  }

  /** Nobody wants what waits to be sent: drop it, and send what comes behind it. */
  dropQueued(): void {
    if (this.#isClosed) return;
    this.#queue.clear();
    this.#sendMarkers();
  }

  /** The peer takes so many bytes more. */
  addCredit(bytes: number): void {
    if (this.#isClosed) return;
    this.#creditBytes += bytes;
    if (this.#queue.bytes > 0) this.#tunnel.wantsToSend(this);
    else this.#wakeSource();
  }

  canSend(): boolean {
    return this.#queue.bytes > 0 && this.#creditBytes > 0;
  }

  sendUpTo(maxBytes: number): number {
    const bytes = this.#sendUpTo(maxBytes);
    if (this.#queue.bytes === 0) this.#sendMarkers();
    this.#wakeSource();
    return bytes;
  }

  /** The carrier takes more; called once after `FlowTunnel.awaitRoom`. */
  tellReady(): void {
    this.#owner.flowReady();
  }

  // Receiving

  /** Bytes have come from the peer; `piece` is the caller's again afterwards. */
  receive(piece: Buffer): void {
    if (this.#window !== undefined) {
      if (!this.#window.receive(piece.length)) {
        this.#owner.flowOverrun();
        return;
      }
    } else {
      this.#waitingBytes += piece.length;
      if (!this.#isFull && this.#waitingBytes >= this.#tunnel.limits.queueBytes) this.#filled();
    }
    this.#owner.flowReceived(recycledMemory.keep(piece));
  }

  /** So many bytes have gone on to where they belong; also after {@link retire}. */
  taken(bytes: number): void {
    if (bytes === 0) return;
    if (this.#window !== undefined) {
      const creditBytes = this.#window.take(bytes);
      if (creditBytes > 0) {
        this.#tunnel.sendControl({
          type: PacketType.CREDIT,
          connectionId: this.connectionId,
          bytes: creditBytes,
        });
      }
      return;
    }
    this.#waitingBytes -= bytes;
    if (!this.#isFull || this.#isClosed) return;
    if (this.#waitingBytes * 2 <= this.#tunnel.limits.queueBytes) this.#noLongerFull();
    else if (!this.#isComplete) this.#watchForStall();
  }

  /**
   * Nothing more comes from the peer: whether what waits is taken is the owner's concern.
   *
   * @param othersMayGoOn - Otherwise the tunnel waits, if it does, until enough was taken.
   */
  noMoreComes(othersMayGoOn = true): void {
    this.#isComplete = true;
    this.#cancelStallTimer?.();
    if (othersMayGoOn) this.#noLongerFull();
  }

  /** The connection is over: nothing of the flow is left. Idempotent. */
  close(): void {
    this.retire();
    this.#window?.close();
  }

  /**
   * The connection is over, but for what was received: that counts towards the budget until it is
   * {@link taken}, or until {@link close}, which has to follow. Idempotent.
   */
  retire(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#queue.clear();
    this.#markers = [];
    this.#isSourceWaiting = false;
    this.#window?.retire();
    this.noMoreComes();
    this.#tunnel.forget(this);
  }

  get #hasRoom(): boolean {
    return this.#creditBytes > 0 && this.#queue.bytes < SOURCE_STOP_BYTES;
  }

  #sendUpTo(maxBytes: number): number {
    const bytes = Math.min(maxBytes, this.#queue.bytes, this.#creditBytes);
    const pieces: Buffer[] = [];
    this.#queue.take(bytes, pieces);
    this.#creditBytes -= bytes;
    for (const piece of pieces) this.#tunnel.sendData(this.connectionId, piece);
    return bytes;
  }

  #sendMarkers(): void {
    const markers = this.#markers;
    this.#markers = [];
    for (const { packet, sent } of markers) {
      this.#tunnel.sendControl(packet);
      sent?.();
    }
  }

  #wakeSource(): void {
    if (!this.#isSourceWaiting || !this.#hasRoom) return;
    this.#isSourceWaiting = false;
    if (this.#tunnel.hasRoom) this.#owner.flowReady();
    else this.#tunnel.awaitRoom(this);
  }

  #filled(): void {
    this.#isFull = true;
    this.#tunnel.setFull(this, true);
    this.#watchForStall();
  }

  #noLongerFull(): void {
    this.#cancelStallTimer?.();
    if (!this.#isFull) return;
    this.#isFull = false;
    this.#tunnel.setFull(this, false);
  }

  #watchForStall(): void {
    this.#cancelStallTimer?.();
    const { clock, limits } = this.#tunnel;
    if (limits.stallTimeoutMs === 0) return;
    this.#cancelStallTimer = clock.schedule(limits.stallTimeoutMs, () => {
      const waitingBytes = this.#waitingBytes;
      this.#owner.flowSeemsStalled();
      if (this.#waitingBytes === waitingBytes) this.#owner.flowStalled();
    });
  }
}
