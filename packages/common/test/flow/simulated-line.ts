import assert from "node:assert/strict";
import type { Flow, FlowOwner } from "../../src/flow/flow.ts";
import { TURN_BYTES } from "../../src/flow/round-robin.ts";
import { TunnelFlows } from "../../src/flow/tunnel-flows.ts";
import type { FlowCarrier } from "../../src/flow/tunnel-flows.ts";
import { WindowBudget } from "../../src/flow/window-budget.ts";
import { PacketType } from "../../src/packet/packet.ts";
import type { ConnectionId, ControlPacket } from "../../src/packet/packet.ts";
import { PIECE_BYTES, UPSTREAM_PIECE_BYTES } from "../../src/piece-bytes.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { finish, id, KIB, LIMITS } from "./flow-setup.ts";

/** What a line holds before it says stop; it says go when half of that has left. */
const LINE_ROOM_BYTES = 128 * KIB;

/** More than any piece, of a period that is no power of two. */
const PERIOD = 251;
const PATTERN = Buffer.alloc(
  512 * KIB,
  Buffer.from(Array.from({ length: PERIOD }, (_, index) => index)),
);

/** The bytes of a connection from `at` on: no two places nearby look alike. */
function patternAt(at: number, bytes: number): Buffer {
  return PATTERN.subarray(at % PERIOD, (at % PERIOD) + bytes);
}

type Item = { readonly payload: Buffer; readonly connectionId: ConnectionId } | ControlPacket;

/** One direction of the line: what was handed to it and has not arrived. */
class Line implements FlowCarrier {
  readonly #items: Item[] = [];
  #bytes = 0;
  #saidStop = false;
  readonly #sender: () => End;
  readonly #receiver: () => End;

  constructor(sender: () => End, receiver: () => End) {
    this.#sender = sender;
    this.#receiver = receiver;
  }

  get isEmpty(): boolean {
    return this.#items.length === 0;
  }

  send(packet: ControlPacket): void {
    this.#items.push(packet);
  }

  sendData(connectionId: ConnectionId, payload: Buffer): boolean {
    assert.ok(payload.length > 0, "an empty DATA packet");
    this.#items.push({ payload, connectionId });
    this.#bytes += payload.length;
    this.#saidStop ||= this.#bytes >= LINE_ROOM_BYTES;
    assert.ok(this.#bytes < LINE_ROOM_BYTES + TURN_BYTES, "handed far more than it had room for");
    return !this.#saidStop;
  }

  // Of what comes the other way.

  growWindow(): void {
    // There is none.
  }

  joinUpTo(): void {
    // Nothing waits to be joined.
  }

  pauseReading(): void {
    this.#sender().isReading = false;
  }

  resumeReading(): void {
    this.#sender().isReading = true;
  }

  /** Let some items arrive, unless the receiver does not read. */
  deliver(count: number): void {
    for (let left = count; left > 0 && this.#receiver().isReading; left--) {
      const item = this.#items.shift();
      if (item === undefined) break;
      if ("payload" in item) this.#bytes -= item.payload.length;
      this.#receiver().arrived(item);
    }
    if (!this.#saidStop || this.#bytes > LINE_ROOM_BYTES / 2) return;
    this.#saidStop = false;
    this.#sender().flows.drained();
  }
}

/** One end's part of a connection: a source with so many bytes to send, and a taker. */
export class Party implements FlowOwner {
  readonly flow: Flow;
  readonly #end: End;
  readonly #totalBytes: number;
  #sentBytes = 0;
  #mayGoOn = true;
  #isFinishing = false;
  receivedBytes = 0;
  #waitingBytes = 0;
  isFinished = false;

  constructor(connectionId: ConnectionId, end: End, totalBytes: number) {
    this.#end = end;
    this.#totalBytes = totalBytes;
    this.flow = end.flows.open(connectionId, this);
  }

  get totalBytes(): number {
    return this.#totalBytes;
  }

  /** Send up to so many bytes, if the flow does not say wait; behind the last byte comes the end. */
  offer(bytes: number): void {
    if (!this.#mayGoOn || this.#isFinishing) return;
    const count = Math.min(bytes, this.#totalBytes - this.#sentBytes);
    if (count > 0) {
      const piece = patternAt(this.#sentBytes, count);
      this.#sentBytes += count;
      // Before the call: it may tell at once that there is room again.
      this.#mayGoOn = false;
      if (this.flow.send(piece)) this.#mayGoOn = true;
      assert.ok(this.flow.queuedBytes < 2 * PIECE_BYTES, "queued without bound");
    }
    if (this.#sentBytes < this.#totalBytes) return;
    this.#isFinishing = true;
    this.flow.sendBehind(finish(Number(this.flow.connectionId)));
  }

  /** Take up to so many bytes of those that wait. */
  take(bytes: number): void {
    const count = Math.min(bytes, this.#waitingBytes);
    this.#waitingBytes -= count;
    this.flow.taken(count);
  }

  // FlowOwner

  flowReceived(piece: Buffer): void {
    assert.ok(!this.isFinished, "bytes behind the end");
    assert.ok(piece.equals(patternAt(this.receivedBytes, piece.length)), "out of order");
    this.receivedBytes += piece.length;
    this.#waitingBytes += piece.length;
    const { limits, hasCredit } = this.#end.flows;
    const mostBytes = hasCredit ? limits.maxBytes : limits.queueBytes + UPSTREAM_PIECE_BYTES;
    assert.ok(this.#waitingBytes <= mostBytes, "more waits than the bound");
  }

  flowReady(): void {
    this.#mayGoOn = true;
  }

  flowOverrun(): void {
    assert.fail("an overrun");
  }

  flowSeemsStalled(): void {
    assert.fail("what looks like a stall");
  }

  flowStalled(): void {
    assert.fail("a stall");
  }
}

/** One end of the tunnel. */
class End {
  readonly flows: TunnelFlows;
  readonly parties: Party[] = [];
  readonly line: Line;
  isReading = true;

  constructor(
    hasCredit: boolean,
    budget: WindowBudget,
    clock: ManualClock,
    line: Line,
    totals: readonly number[],
  ) {
    this.line = line;
    this.flows = new TunnelFlows(line, hasCredit, LIMITS, budget, clock);
    totals.forEach((totalBytes, index) => {
      this.parties.push(new Party(id(index + 1), this, totalBytes));
    });
  }

  arrived(item: Item): void {
    if (!("connectionId" in item)) return;
    const party = this.parties[Number(item.connectionId) - 1]!;
    if ("payload" in item) party.flow.receive(item.payload);
    else if (item.type === PacketType.CREDIT) party.flow.addCredit(item.bytes);
    else if (item.type === PacketType.FINISH) party.isFinished = true;
  }
}

/** Two ends joined by a line with bounded room. */
export function simulatedLine(
  hasCredit: boolean,
  totals: readonly (readonly [number, number])[],
  budgetBytes: number,
) {
  const clock = new ManualClock();
  const budgets = [new WindowBudget(budgetBytes), new WindowBudget(budgetBytes)] as const;
  const ends: End[] = [];
  for (const side of [0, 1] as const) {
    const line = new Line(
      () => ends[side]!,
      () => ends[1 - side]!,
    );
    const totalsOfSide = totals.map((ofConnection) => ofConnection[side]);
    ends.push(new End(hasCredit, budgets[side], clock, line, totalsOfSide));
  }
  return { clock, budgets, ends: ends as [End, End] };
}
