import type { FlowLimits, FlowOwner } from "../../src/flow/flow.ts";
import { TunnelFlows } from "../../src/flow/tunnel-flows.ts";
import type { FlowCarrier } from "../../src/flow/tunnel-flows.ts";
import { WindowBudget } from "../../src/flow/window-budget.ts";
import { PacketType } from "../../src/packet/packet.ts";
import type { ConnectionId, ControlPacket } from "../../src/packet/packet.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";

export const KIB = 1024;

/** Bounds that are small enough to be reached. */
export const LIMITS: FlowLimits = {
  initialBytes: 64 * KIB,
  maxBytes: 1024 * KIB,
  tunnelWindowBytes: 4096 * KIB,
  queueBytes: 256 * KIB,
  stallTimeoutMs: 1_000,
};

export const id = (value: number) => value as ConnectionId;

export function finish(connectionId = 1): ControlPacket {
  return { type: PacketType.FINISH, connectionId: id(connectionId) };
}

export function reset(connectionId = 1): ControlPacket {
  return { type: PacketType.RESET, connectionId: id(connectionId), error: "gone" };
}

/** A carrier that writes down what it is given: `DATA 1 5`, `FINISH 1`, `CREDIT 1 16384`. */
export class RecordingCarrier implements FlowCarrier {
  readonly sent: string[] = [];
  readonly payloads: Buffer[] = [];
  /** Bytes that it still takes before it says stop. */
  roomBytes = Infinity;
  isReading = true;
  grownBytes = 0;
  joinedBytes = 0;

  send(packet: ControlPacket): void {
    const [name] = Object.entries(PacketType).find(([, type]) => type === packet.type)!;
    const connectionId = "connectionId" in packet ? ` ${packet.connectionId}` : "";
    this.sent.push(`${name}${connectionId}${"bytes" in packet ? ` ${packet.bytes}` : ""}`);
  }

  sendData(connectionId: ConnectionId, payload: Buffer): boolean {
    this.sent.push(`DATA ${connectionId} ${payload.length}`);
    this.payloads.push(payload);
    this.roomBytes -= payload.length;
    return this.roomBytes > 0;
  }

  growWindow(bytes: number): void {
    this.grownBytes += bytes;
  }

  joinUpTo(bytes: number): void {
    this.joinedBytes = bytes;
  }

  pauseReading(): void {
    this.isReading = false;
  }

  resumeReading(): void {
    this.isReading = true;
  }
}

/** An owner that writes down what it is told: `received 5`, `ready`, `overrun`, `stalled`. */
export class RecordingOwner implements FlowOwner {
  readonly told: string[] = [];

  flowReceived(piece: Buffer): void {
    this.told.push(`received ${piece.length}`);
  }

  flowReady(): void {
    this.told.push("ready");
  }

  flowOverrun(): void {
    this.told.push("overrun");
  }

  /** What has gone on in part when it is asked. */
  onSeemsStalled: () => void = () => undefined;

  flowSeemsStalled(): void {
    this.onSeemsStalled();
  }

  flowStalled(): void {
    this.told.push("stalled");
  }
}

interface TunnelOptions {
  readonly hasCredit?: boolean;
  readonly limits?: Partial<FlowLimits>;
}

/** The flows of one tunnel whose carrier writes down what it is given. */
export function recordingTunnel({ hasCredit = true, limits = {} }: TunnelOptions = {}) {
  const clock = new ManualClock();
  const carrier = new RecordingCarrier();
  const budget = new WindowBudget(8192 * KIB);
  const flows = new TunnelFlows(carrier, hasCredit, { ...LIMITS, ...limits }, budget, clock);
  return {
    clock,
    carrier,
    budget,
    flows,
    open: (connectionId = 1) => {
      const owner = new RecordingOwner();
      return { owner, flow: flows.open(id(connectionId), owner) };
    },
    /** The carrier has got rid of what it had. */
    drain: (roomBytes = Infinity) => {
      carrier.roomBytes = roomBytes;
      flows.drained();
    },
  };
}
