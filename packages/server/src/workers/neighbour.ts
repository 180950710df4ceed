import {
  FRONTEND_EXTENSIONS,
  GrpcClientCarrier,
  Http2Connection,
  connectSocket,
  offeredExtensions,
} from "@reachback/common";
import type {
  AgentIdentifiers,
  CarrierCounters,
  Clock,
  DialId,
  FlowPorts,
  GrpcCallTarget,
  Random,
} from "@reachback/common";
import type { BackendRegistry } from "../backend/backend-registry.ts";
import type { Candidate, Standing } from "../backend/candidate.ts";
import { DialHealth } from "../backend/dial-health.ts";
import type { Connection } from "../dial/connection.ts";
import { NEIGHBOUR_CONNECT_TIMEOUT_MS, FRONTEND_HTTP2 } from "../limits.ts";
import { HandedDial } from "./handed-dial.ts";
import type { HandedDialOwner } from "./handed-dial.ts";

const TARGET: GrpcCallTarget = {
  path: "/ProxyService/Proxy",
  authority: "reachback",
  scheme: "http",
  userAgent: "reachback-server",
  metadata: offeredExtensions(FRONTEND_EXTENSIONS),
};

/** The neighbour counts these packets. */
const UNCOUNTED: CarrierCounters = {
  sent: { count: () => undefined },
  received: { count: () => undefined },
};

export interface NeighbourPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly flowPorts: FlowPorts;
  readonly registry: Pick<BackendRegistry, "addNeighbour" | "removeNeighbour">;
}

/** Another worker: its agents, and the way to hand it dials for them. */
export class Neighbour {
  readonly #path: string;
  readonly #ports: NeighbourPorts;
  /** Tunnels of agents, by the neighbour's number for each. */
  readonly #agents = new Map<number, NeighbourAgent>();
  #http2: Promise<Http2Connection> | undefined;
  #isGone = false;

  /** @param path - Of its socket for dials. */
  constructor(path: string, ports: NeighbourPorts) {
    this.#path = path;
    this.#ports = ports;
  }

  agentAdded(tunnel: number, agentId: string, identifiers: AgentIdentifiers): void {
    const agent = new NeighbourAgent(agentId, identifiers, this, this.#ports.clock);
    this.#agents.set(tunnel, agent);
    this.#ports.registry.addNeighbour(agent);
  }

  agentRetired(tunnel: number): void {
    const agent = this.#agents.get(tunnel);
    if (agent === undefined) return;
    this.#agents.delete(tunnel);
    this.#ports.registry.removeNeighbour(agent);
  }

  /** The worker has ended, or this one does. */
  gone(): void {
    this.#isGone = true;
    for (const tunnel of [...this.#agents.keys()]) this.agentRetired(tunnel);
    this.#http2?.then(
      (http2) => {
        http2.destroy();
      },
      () => undefined,
    );
  }

  /** Hand over a dial. */
  dial(connection: Connection, agentId: string, owner: HandedDialOwner): void {
    const { clock, random, flowPorts } = this.#ports;
    const handed = new HandedDial(agentId, connection, flowPorts, clock, owner);
    connection.ask(handed, random.int63() as DialId);
    this.#connected().then(
      (http2) => {
        if (handed.isOver) return;
        handed.attach(new GrpcClientCarrier(http2, TARGET, UNCOUNTED, handed));
      },
      () => {
        handed.failed();
      },
    );
  }

  /** One HTTP/2 connection for all dials, opened for the first. */
  #connected(): Promise<Http2Connection> {
    this.#http2 ??= this.#connect().catch((error: unknown) => {
      this.#http2 = undefined;
      throw error;
    });
    return this.#http2;
  }

  async #connect(): Promise<Http2Connection> {
    const { clock } = this.#ports;
    const socket = await connectSocket({
      address: { kind: "unix", path: this.#path },
      timeoutMs: NEIGHBOUR_CONNECT_TIMEOUT_MS,
      clock,
    });
    const http2 = new Http2Connection(socket, "client", FRONTEND_HTTP2, clock, {
      request: () => {
        throw new Error("a server cannot open streams");
      },
      goaway: () => {
        this.#http2 = undefined;
      },
      closed: () => {
        this.#http2 = undefined;
      },
    });
    if (this.#isGone) http2.destroy();
    return http2;
  }
}

/** A tunnel that a neighbour has. Its load and whether it drains are the neighbour's business. */
class NeighbourAgent implements Candidate {
  readonly agentId: string;
  readonly identifiers: AgentIdentifiers;
  readonly isSilent = false;
  lastChosen = 0;
  readonly #neighbour: Neighbour;
  readonly #clock: Clock;
  readonly #health: DialHealth;
  readonly #openedAtMs: number;
  #heldCount = 0;

  constructor(agentId: string, identifiers: AgentIdentifiers, neighbour: Neighbour, clock: Clock) {
    this.agentId = agentId;
    this.identifiers = identifiers;
    this.#neighbour = neighbour;
    this.#clock = clock;
    this.#health = new DialHealth(clock);
    this.#openedAtMs = clock.now();
  }

  get standing(): Standing {
    return this.#health.state === "failing" ? "failing" : "sound";
  }

  get load(): number {
    return this.#heldCount + this.#health.recentFailures;
  }

  get ageMs(): number {
    return this.#clock.now() - this.#openedAtMs;
  }

  get heldCount(): number {
    return this.#heldCount;
  }

  listen(): void {
    // Which of its tunnels the neighbour uses, it decides itself.
  }

  dial(connection: Connection): void {
    this.#heldCount++;
    this.#neighbour.dial(connection, this.agentId, {
      answered: () => {
        this.#health.answered();
      },
      over: () => {
        this.#heldCount--;
      },
    });
  }

  dialUnanswered(askedAtMs: number): void {
    this.#health.unanswered(askedAtMs);
  }
}
