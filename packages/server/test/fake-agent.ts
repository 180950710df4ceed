import {
  MetricRegistry,
  WindowBudget,
  parseAgentIdentifiers,
  silentLogger,
} from "@reachback/common";
import type {
  Clock,
  ConnectionId,
  ControlPacket,
  DialId,
  Extension,
  FlowLimits,
  GrpcStatus,
  Logger,
  ServerCarrier,
} from "@reachback/common";
import { ManualClock, SeededRandom } from "@reachback/common/testing";
import { Backend } from "../src/backend/backend.ts";
import type { BackendOwner } from "../src/backend/backend.ts";
import type { Connection, ConnectionPorts } from "../src/dial/connection.ts";
import type { DialLimits } from "../src/dial/dial-limits.ts";
import { PendingDial } from "../src/dial/pending-dial.ts";
import type { DialFailure, DialRequest, FrontendEnd } from "../src/dial/frontend-end.ts";
import { ServerMetrics } from "../src/metrics.ts";

// Both ends of a backend without a network: the tunnel's far end, and frontends.

/** A carrier that keeps what is sent. */
export class FakeCarrier implements ServerCarrier {
  queuedBytes = 0;
  readonly sent: (ControlPacket | { readonly data: string; readonly connectionId: number })[] = [];
  /** What `sendData` answers: whether there is room for more. */
  hasRoom = true;
  isReading = true;
  isClosed = false;
  isReset = false;

  send(packet: ControlPacket): void {
    this.sent.push(packet);
  }

  sendData(connectionId: ConnectionId, payload: Buffer): boolean {
    this.sent.push({ data: payload.toString(), connectionId: Number(connectionId) });
    return this.hasRoom;
  }

  growWindow(): void {
    // There is none.
  }

  joinUpTo(): void {
    // Nothing waits to be joined.
  }

  pauseReading(): void {
    this.isReading = false;
  }

  resumeReading(): void {
    this.isReading = true;
  }

  end(): void {
    this.isClosed = true;
  }

  abort(): void {
    this.isClosed = true;
  }

  reset(): void {
    this.isReset = true;
    this.queuedBytes = 0;
  }
}

/** A frontend's end that keeps what it is told, in one line each. */
export class FakeFrontend implements FrontendEnd {
  readonly told: string[] = [];
  hasHalfClose = false;

  dialed(connectionId: ConnectionId): void {
    this.told.push(`dialed ${connectionId}`);
  }

  dialFailed(failure: DialFailure): void {
    this.told.push(`dialFailed ${failure.kind}${"error" in failure ? ` ${failure.error}` : ""}`);
  }

  receive(piece: Buffer): void {
    this.told.push(`receive ${piece.toString()}`);
  }

  reportTaken(): void {
    this.told.push("reportTaken");
  }

  finish(): boolean {
    this.told.push("finish");
    return this.hasHalfClose;
  }

  agentReady(): void {
    this.told.push("agentReady");
  }

  closed(reason: string, error: string): void {
    this.told.push(`closed ${reason}${error === "" ? "" : ` ${error}`}`);
  }
}

const NO_OWNER: BackendOwner = {
  backendDraining: () => undefined,
  backendLeaving: () => undefined,
  backendClosed: () => undefined,
};

const KIB = 1024;

/** Bounds that are small enough to be reached. */
export const TEST_LIMITS: FlowLimits = {
  initialBytes: 64 * KIB,
  maxBytes: 1024 * KIB,
  tunnelWindowBytes: 16 * 1024 * KIB,
  queueBytes: 256 * KIB,
  stallTimeoutMs: 1_000,
};

export interface FakeAgentOptions {
  readonly agentId?: string;
  /** As in the agent's metadata. */
  readonly identifiers?: string;
  readonly extensions?: readonly Extension[];
  readonly owner?: BackendOwner;
  readonly clock?: Clock;
  readonly logger?: Logger;
}

export const NO_LIMITS: DialLimits = {
  backendDialTimeoutMs: 0,
  startupDialHoldMs: 0,
  maxPendingDials: 0,
  maxConnections: 0,
  maxConnectionsPerAgent: 0,
};

export interface FakeAgent {
  readonly backend: Backend;
  readonly carrier: FakeCarrier;
  readonly registry: MetricRegistry;
  /** What the windows of its connections have grown by. */
  readonly budget: WindowBudget;
  /** Dial through this agent, without any other. @param timeoutMs - 0: none. */
  dial(request: DialRequest, frontend: FrontendEnd, timeoutMs: number): Connection;
  /** Connections and dials that have ended. */
  endedCount(): number;
}

/** A backend with a fake tunnel. */
export function fakeAgent(options: FakeAgentOptions = {}): FakeAgent {
  const registry = new MetricRegistry();
  let ended = 0;
  const ports: ConnectionPorts = {
    clock: options.clock ?? new ManualClock(),
    metrics: new ServerMetrics(registry),
    logger: options.logger ?? silentLogger,
    halfCloseTimeoutMs: 10_000,
    connectionEnded: () => {
      ended++;
    },
  };
  const budget = new WindowBudget(Number.MAX_SAFE_INTEGER);
  const backend = new Backend(
    options.agentId ?? "agent-1",
    parseAgentIdentifiers(options.identifiers ?? ""),
    new Set(options.extensions),
    options.owner ?? NO_OWNER,
    ports,
    { limits: TEST_LIMITS, budget },
    new SeededRandom(1),
  );
  const carrier = new FakeCarrier();
  backend.attach(carrier);
  const dial = (request: DialRequest, frontend: FrontendEnd, timeoutMs: number) => {
    const pending = new PendingDial(request, frontend, {
      limits: { ...NO_LIMITS, backendDialTimeoutMs: timeoutMs },
      ports,
      choose: () => undefined,
      forget: () => undefined,
    });
    pending.begin(backend);
    return pending.connection;
  };
  return { backend, carrier, registry, budget, dial, endedCount: () => ended };
}

export function dialId(id: number | bigint): DialId {
  return id as DialId;
}

export function connectionId(id: number): ConnectionId {
  return id as ConnectionId;
}

export const CANCELLED: GrpcStatus = { code: 1, message: "context canceled" };
