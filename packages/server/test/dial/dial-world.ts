import { MetricRegistry, PacketType } from "@reachback/common";
import type { ControlPacket, DialRequestPacket } from "@reachback/common";
import {
  ManualClock,
  RecordingLogger,
  SeededRandom,
  readExposition,
} from "@reachback/common/testing";
import { BackendRegistry } from "../../src/backend/backend-registry.ts";
import { DialBroker } from "../../src/dial/dial-broker.ts";
import type { DialLimits } from "../../src/dial/dial-limits.ts";
import { ServerMetrics } from "../../src/metrics.ts";
import type { ProxyStrategy } from "../../src/options/proxy-strategies.ts";
import {
  CANCELLED,
  FakeFrontend,
  NO_LIMITS,
  connectionId,
  dialId,
  fakeAgent,
} from "../fake-agent.ts";

// A broker with agents that do as a test says, on a clock that it moves.

/** What an agent does with a dial. */
export type OnDial = (request: DialRequestPacket, agent: ScriptedAgent) => void;

export interface ScriptedAgent {
  readonly agentId: string;
  /** All that it was sent, but for the dials that were handed to its script. */
  readonly received: ControlPacket[];
  readonly dialCount: number;
  /** Connections that it has open. */
  readonly open: ReadonlySet<number>;
  answer(request: DialRequestPacket): void;
  refuse(request: DialRequestPacket, error: string): void;
  drop(request: DialRequestPacket): void;
  drain(): void;
  leave(): void;
}

export interface WorldOptions {
  readonly limits?: Partial<DialLimits>;
  readonly strategies?: readonly ProxyStrategy[];
}

export class DialWorld {
  readonly clock = new ManualClock();
  readonly logger = new RecordingLogger();
  readonly random = new SeededRandom(3);
  readonly broker: DialBroker;
  readonly #registry: BackendRegistry;
  readonly #metricRegistry = new MetricRegistry();
  #lastDialId = 0;

  constructor({ limits = {}, strategies = ["default"] }: WorldOptions = {}) {
    this.#registry = new BackendRegistry(strategies, { zone: "", random: this.random });
    this.broker = new DialBroker(
      this.#registry,
      { ...NO_LIMITS, backendDialTimeoutMs: 10_000, ...limits },
      {
        clock: this.clock,
        metrics: new ServerMetrics(this.#metricRegistry),
        logger: this.logger,
        halfCloseTimeoutMs: 10_000,
        connectionEnded: () => undefined,
      },
    );
  }

  /** Connect an agent. */
  add(agentId: string, onDial: OnDial, identifiers = ""): ScriptedAgent {
    const { backend, carrier } = fakeAgent({
      agentId,
      identifiers,
      clock: this.clock,
      owner: {
        backendDraining: () => undefined,
        backendLeaving: (leaving) => {
          this.#registry.retire(leaving);
        },
        backendClosed: (closed) => {
          this.#registry.remove(closed);
        },
      },
    });
    let lastId = 0;
    let dialCount = 0;
    const open = new Set<number>();
    const agent: ScriptedAgent = {
      agentId,
      received: [],
      open,
      get dialCount() {
        return dialCount;
      },
      answer: (request) => {
        open.add(++lastId);
        backend.control({
          type: PacketType.DIAL_RSP,
          dialId: request.dialId,
          connectionId: connectionId(lastId),
          error: "",
        });
      },
      refuse: (request, error) => {
        backend.control({
          type: PacketType.DIAL_RSP,
          dialId: request.dialId,
          connectionId: connectionId(0),
          error,
        });
      },
      drop: (request) => {
        backend.control({ type: PacketType.DIAL_CLS, dialId: request.dialId });
      },
      drain: () => {
        backend.control({ type: PacketType.DRAIN });
      },
      leave: () => {
        backend.closed(CANCELLED);
      },
    };
    carrier.send = (packet) => {
      if (packet.type === PacketType.DIAL_REQ) {
        dialCount++;
        // As over a network: never before the dial has returned.
        this.clock.schedule(0, () => {
          onDial(packet, agent);
        });
        return;
      }
      agent.received.push(packet);
      if (packet.type !== PacketType.CLOSE_REQ) return;
      open.delete(Number(packet.connectionId));
      backend.control({
        type: PacketType.CLOSE_RSP,
        connectionId: packet.connectionId,
        error: "",
      });
    };
    this.#registry.add(backend);
    return agent;
  }

  dial(address = "endpoint:80") {
    const frontend = new FakeFrontend();
    const request = { dialId: dialId(++this.#lastDialId), protocol: "tcp", address };
    return { frontend, connection: this.broker.dial(request, frontend) };
  }

  /** Values of a metric by its label `reason`. */
  async reasons(metric: string): Promise<Record<string, number>> {
    const samples = readExposition(await this.#metricRegistry.exposition());
    return Object.fromEntries(
      samples
        .filter(({ name }) => name.endsWith(metric))
        .map(({ labels, value }) => [labels["reason"] ?? "", value]),
    );
  }
}

export const answers: OnDial = (request, agent) => {
  agent.answer(request);
};

export const mute: OnDial = () => undefined;
