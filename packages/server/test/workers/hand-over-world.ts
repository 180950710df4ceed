import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { MetricRegistry, PacketType, WindowBudget, parseAgentIdentifiers } from "@reachback/common";
import type { ControlPacket } from "@reachback/common";
import {
  ManualClock,
  RecordingLogger,
  SeededRandom,
  readExposition,
} from "@reachback/common/testing";
import { BackendRegistry } from "../../src/backend/backend-registry.ts";
import type { Connection } from "../../src/dial/connection.ts";
import { DialBroker } from "../../src/dial/dial-broker.ts";
import type { DialLimits } from "../../src/dial/dial-limits.ts";
import { ServerMetrics } from "../../src/metrics.ts";
import { HandInService } from "../../src/workers/hand-in-service.ts";
import { Neighbour } from "../../src/workers/neighbour.ts";
import {
  CANCELLED,
  FakeFrontend,
  NO_LIMITS,
  TEST_LIMITS,
  connectionId,
  dialId,
  fakeAgent,
} from "../fake-agent.ts";
import type { FakeAgent } from "../fake-agent.ts";

// Workers without processes: each has a registry, a broker and a place where neighbours hand in dials,
// on real sockets. Their clock is moved by the test.

const PATIENCE_MS = 10_000;

/** Wait, turn by turn of the event loop, until `condition` holds. */
export async function until(condition: () => boolean): Promise<void> {
  const deadlineMs = performance.now() + PATIENCE_MS;
  while (!condition()) {
    if (performance.now() > deadlineMs) throw new Error(`never became true: ${String(condition)}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** An agent of a worker; it does what the test says. */
export class WorldAgent {
  readonly #agent: FakeAgent;
  readonly #leave: () => void;
  #lastId = 0;

  constructor(agent: FakeAgent, leave: () => void) {
    this.#agent = agent;
    this.#leave = leave;
  }

  /** All that it was sent, in words: `DIAL_REQ 1`, `data`, `CLOSE_REQ 1`. */
  get received(): string[] {
    return this.#agent.carrier.sent.map((packet) =>
      "data" in packet ? `data ${packet.data}` : packetWords(packet),
    );
  }

  get heldCount(): number {
    return this.#agent.backend.heldCount;
  }

  get standing(): string {
    return this.#agent.backend.standing;
  }

  /** Wait until it has received this. */
  async gets(words: string): Promise<void> {
    await until(() => this.received.includes(words));
  }

  /** Answer a dial; returns the connection's id. */
  answers(dial: number): number {
    const id = ++this.#lastId;
    this.#agent.backend.control({
      type: PacketType.DIAL_RSP,
      dialId: dialId(dial),
      connectionId: connectionId(id),
      error: "",
    });
    return id;
  }

  refuses(dial: number, error: string): void {
    this.#agent.backend.control({
      type: PacketType.DIAL_RSP,
      dialId: dialId(dial),
      connectionId: connectionId(0),
      error,
    });
  }

  says(packet: ControlPacket): void {
    this.#agent.backend.control(packet);
  }

  sends(id: number, text: string): void {
    this.#agent.backend.data(connectionId(id), Buffer.from(text), true);
  }

  leaves(): void {
    this.#leave();
  }
}

function packetWords(packet: ControlPacket): string {
  const name = Object.entries(PacketType).find(([, type]) => type === packet.type)?.[0] ?? "?";
  const id =
    "dialId" in packet ? packet.dialId : "connectionId" in packet ? packet.connectionId : "";
  const error = "error" in packet && packet.error !== "" ? ` ${packet.error}` : "";
  return `${name} ${id}${error}`;
}

/** One worker. */
class WorldWorker {
  readonly registry: BackendRegistry;
  readonly broker: DialBroker;
  readonly logger = new RecordingLogger();
  readonly metrics = new MetricRegistry();
  readonly path: string;
  readonly handIn: HandInService;
  readonly #clock: ManualClock;
  readonly #neighbours = new Map<WorldWorker, Neighbour>();
  #lastTunnel = 0;

  constructor(path: string, limits: DialLimits, clock: ManualClock) {
    this.path = path;
    this.#clock = clock;
    this.registry = new BackendRegistry(["default"], { zone: "", random: new SeededRandom(5) });
    const ports = {
      clock,
      metrics: new ServerMetrics(this.metrics),
      logger: this.logger,
      halfCloseTimeoutMs: 10_000,
      connectionEnded: () => undefined,
    };
    this.broker = new DialBroker(this.registry, limits, ports);
    this.handIn = new HandInService(this.registry, limits, ports);
  }

  /** The other worker, as this one sees it. */
  neighbour(other: WorldWorker): Neighbour {
    let neighbour = this.#neighbours.get(other);
    if (neighbour === undefined) {
      neighbour = new Neighbour(other.path, {
        clock: this.#clock,
        flowPorts: { limits: TEST_LIMITS, budget: new WindowBudget(Number.MAX_SAFE_INTEGER) },
        registry: this.registry,
      });
      this.#neighbours.set(other, neighbour);
    }
    return neighbour;
  }

  /** Connect an agent, and tell `others` of it. */
  add(agentId: string, others: readonly WorldWorker[]): WorldAgent {
    const tunnel = ++this.#lastTunnel;
    const agent = fakeAgent({
      agentId,
      clock: this.#clock,
      extensions: ["half-close"],
      owner: {
        backendDraining: () => {
          for (const other of others) {
            other.neighbour(this).tunnelChanged({ type: "draining", tunnel });
          }
        },
        backendLeaving: (leaving) => {
          this.registry.retire(leaving);
        },
        backendClosed: (closed) => {
          this.registry.remove(closed);
        },
      },
    });
    this.registry.add(agent.backend);
    for (const other of others) {
      const identifiers = parseAgentIdentifiers("");
      other.neighbour(this).tunnelChanged({ type: "opened", tunnel, agentId, identifiers });
    }
    return new WorldAgent(agent, () => {
      agent.backend.closed(CANCELLED);
    });
  }

  get heldCount(): number {
    return this.broker.heldCount + this.handIn.heldCount;
  }

  /** The process ends without a word. */
  die(): void {
    this.handIn.destroy();
    for (const neighbour of this.#neighbours.values()) neighbour.gone();
  }

  /** The value of a metric, all labels together. */
  async metric(name: string): Promise<number> {
    const samples = readExposition(await this.metrics.exposition());
    return samples
      .filter((sample) => sample.name.endsWith(name))
      .reduce((total, { value }) => total + value, 0);
  }
}

export class HandOverWorld {
  readonly clock = new ManualClock();
  /** Frontends are here. */
  readonly first: WorldWorker;
  /** And agents there. */
  readonly second: WorldWorker;
  #lastDialId = 0;

  private constructor(folder: string, limits: DialLimits) {
    this.first = new WorldWorker(join(folder, "1.sock"), limits, this.clock);
    this.second = new WorldWorker(join(folder, "2.sock"), limits, this.clock);
  }

  /** Two workers; a dial may take 10 s. */
  static async start(t: TestContext, limits: Partial<DialLimits> = {}): Promise<HandOverWorld> {
    const folder = mkdtempSync(join(tmpdir(), "reachback-"));
    const world = new HandOverWorld(folder, {
      ...NO_LIMITS,
      backendDialTimeoutMs: 10_000,
      ...limits,
    });
    t.after(() => {
      world.first.die();
      world.second.die();
      rmSync(folder, { recursive: true, force: true });
    });
    await world.second.handIn.open(world.second.path);
    return world;
  }

  /** Connect an agent to the second worker, which the first one hears of. */
  addThere(agentId: string): WorldAgent {
    return this.second.add(agentId, [this.first]);
  }

  addHere(agentId: string): WorldAgent {
    return this.first.add(agentId, [this.second]);
  }

  /** Dial at the first worker, or another. Dials have the ids 1, 2, ... */
  dial(worker = this.first): { frontend: FakeFrontend; connection: Connection } {
    const frontend = new FakeFrontend();
    frontend.hasHalfClose = true;
    const request = {
      dialId: dialId(++this.#lastDialId),
      protocol: "tcp",
      address: "endpoint:80",
    };
    const connection = worker.broker.dial(request, frontend);
    if (connection === undefined) throw new Error(`refused: ${frontend.told.join()}`);
    return { frontend, connection };
  }
}

/** Wait until a frontend was told this. */
export async function told(frontend: FakeFrontend, words: string): Promise<void> {
  await until(() => frontend.told.includes(words));
}
