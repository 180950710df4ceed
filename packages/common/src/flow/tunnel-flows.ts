import type { Clock } from "../clock.ts";
import type { ConnectionId, ControlPacket } from "../packet/packet.ts";
import { PIECE_BYTES, UPSTREAM_PIECE_BYTES } from "../piece-bytes.ts";
import { Flow } from "./flow.ts";
import type { FlowLimits, FlowOwner, FlowTunnel } from "./flow.ts";
import { RoundRobin } from "./round-robin.ts";
import { WindowBudget } from "./window-budget.ts";

/** The part of a carrier that flows use. */
export interface FlowCarrier {
  send(packet: ControlPacket): void;
  sendData(connectionId: ConnectionId, payload: Buffer): boolean;
  growWindow(bytes: number): void;
  joinUpTo(bytes: number): void;
  pauseReading(): void;
  resumeReading(): void;
}

/** What all flows of a process share. */
export interface FlowPorts {
  readonly limits: FlowLimits;
  /** What all windows may grow by, together. */
  readonly budget: WindowBudget;
}

/**
 * What a peer that counts credit may have under way beyond the carrier's own window, which is all that
 * bounds an upstream peer. Credit is the bound here, 512 MiB for a tunnel (`--tunnel-window`), and a window that is
 * given back by halves stays out of its way with twice as much, 1 GiB in all. With 64 MiB a tunnel carried half of
 * that in a round trip: 1 GiB over 50 ms at 535 to 555 MiB/s, where it is 735 to 785 with credit alone.
 */
const CREDIT_WINDOW_BYTES = 1008 * 1024 * 1024;

/**
 * The flows of all connections of one tunnel, and the line that they share: who sends next, and
 * whether the peer has to wait.
 *
 * Only as much as the carrier has room for is handed to it, so control packets, which go to the
 * carrier at once, never wait behind more than that.
 */
export class TunnelFlows implements FlowTunnel {
  readonly clock: Clock;
  readonly limits: FlowLimits;
  /** Whether the peer counts credit; otherwise it is an upstream peer. */
  readonly hasCredit: boolean;
  readonly budget: WindowBudget;

  readonly #carrier: FlowCarrier;
  readonly #ring = new RoundRobin<Flow>();
  /** Flows whose source waits until the carrier takes more. */
  readonly #awaitingRoom = new Set<Flow>();
  /** Flows that are full: while there is one, an upstream peer has to wait. */
  readonly #full = new Set<Flow>();
  #hasRoom = true;
  readonly #carrierHasRoom = () => this.#hasRoom;

  constructor(
    carrier: FlowCarrier,
    hasCredit: boolean,
    limits: FlowLimits,
    processBudget: WindowBudget,
    clock: Clock,
  ) {
    this.#carrier = carrier;
    this.hasCredit = hasCredit;
    this.limits = limits;
    this.clock = clock;
    this.budget = new WindowBudget(limits.tunnelWindowBytes, processBudget);
    if (!hasCredit) return;
    carrier.growWindow(CREDIT_WINDOW_BYTES);
    carrier.joinUpTo(PIECE_BYTES);
  }

  /** Whether the peer has to wait for a flow that is full. */
  get isReadingPaused(): boolean {
    return this.#full.size > 0;
  }

  open(connectionId: ConnectionId, owner: FlowOwner): Flow {
    return new Flow(connectionId, this, owner);
  }

  /** The carrier takes DATA again after it said stop. */
  drained(): void {
    this.#hasRoom = true;
    this.#ring.run(this.#carrierHasRoom);
    // A source that is told may fill the carrier again, and then waits behind the others.
    for (const flow of this.#awaitingRoom) {
      if (!this.hasRoom) return;
      this.#awaitingRoom.delete(flow);
      flow.tellReady();
    }
  }

  // For the flows

  /** Whether nobody waits to send, and the carrier takes more. */
  get isClear(): boolean {
    return this.#hasRoom && this.#ring.isEmpty;
  }

  get hasRoom(): boolean {
    return this.#hasRoom;
  }

  sendControl(packet: ControlPacket): void {
    this.#carrier.send(packet);
  }

  sendData(connectionId: ConnectionId, payload: Buffer): void {
    const maxBytes = this.hasCredit ? PIECE_BYTES : UPSTREAM_PIECE_BYTES;
    for (let at = 0; at < payload.length; at += maxBytes) {
      const packet = payload.length > maxBytes ? payload.subarray(at, at + maxBytes) : payload;
      this.#hasRoom = this.#carrier.sendData(connectionId, packet);
    }
  }

  wantsToSend(flow: Flow): void {
    this.#ring.add(flow);
    this.#ring.run(this.#carrierHasRoom);
  }

  awaitRoom(flow: Flow): void {
    this.#awaitingRoom.add(flow);
  }

  setFull(flow: Flow, isFull: boolean): void {
    const wasPaused = this.isReadingPaused;
    if (isFull) this.#full.add(flow);
    else this.#full.delete(flow);
    if (wasPaused === this.isReadingPaused) return;
    if (wasPaused) this.#carrier.resumeReading();
    else this.#carrier.pauseReading();
  }

  forget(flow: Flow): void {
    this.#ring.remove(flow);
    this.#awaitingRoom.delete(flow);
    this.setFull(flow, false);
  }
}
