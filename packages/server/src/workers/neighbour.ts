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
  FlowPorts,
  GrpcCallTarget,
} from "@reachback/common";
import type { BackendRegistry } from "../backend/backend-registry.ts";
import type { Candidate, Standing } from "../backend/candidate.ts";
import { DialHealth } from "../backend/dial-health.ts";
import type { Connection } from "../dial/connection.ts";
import { NEIGHBOUR_CONNECT_TIMEOUT_MS, NEIGHBOUR_HTTP2 } from "../limits.ts";
import type { TunnelChange } from "./messages.ts";
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
  readonly flowPorts: FlowPorts;
  readonly registry: Pick<BackendRegistry, "addNeighbour" | "removeNeighbour">;
}

/** Another worker: its agents, and the way to hand it dials for them. */
export class Neighbour {
  readonly #path: string;
  readonly #ports: NeighbourPorts;
  /** Tunnels of agents, by the neighbour's number for each. */
  readonly #agents = new Map<number, NeighbourAgent>();
  /** What was handed over and goes on. */
  readonly #dials = new Set<HandedDial>();
  #http2: Promise<Http2Connection> | undefined;
  #isGone = false;

  /** @param path - Of its socket for dials. */
  constructor(path: string, ports: NeighbourPorts) {
    this.#path = path;
    this.#ports = ports;
  }

  /** An agent's tunnel to it has come, drains, or is gone. */
  tunnelChanged(change: TunnelChange): void {
    switch (change.type) {
      case "opened": {
        const { agentId, identifiers } = change;
        const agent = new NeighbourAgent(agentId, identifiers, this, this.#ports.clock);
        this.#agents.set(change.tunnel, agent);
        this.#ports.registry.addNeighbour(agent);
        return;
      }
      case "draining":
        this.#agents.get(change.tunnel)?.drain();
        return;
      case "retired":
        this.#retire(change.tunnel);
        return;
    }
  }

  #retire(tunnel: number): void {
    const agent = this.#agents.get(tunnel);
    if (agent === undefined) return;
    this.#agents.delete(tunnel);
    this.#ports.registry.removeNeighbour(agent);
  }

  /** The worker has ended, or this one does: what was handed to it is lost. */
  gone(): void {
    this.#isGone = true;
    for (const tunnel of [...this.#agents.keys()]) this.#retire(tunnel);
    for (const dial of [...this.#dials]) dial.lost("agent_lost");
    this.#http2?.then(
      (http2) => {
        http2.destroy();
      },
      () => undefined,
    );
  }

  /** This server stops: end all that was handed over, as tunnels end. */
  end(): void {
    for (const dial of [...this.#dials]) dial.lost("shutdown");
  }

  /** Hand over a dial. */
  dial(connection: Connection, agentId: string, owner: HandedDialOwner): void {
    const { clock, flowPorts } = this.#ports;
    const handed = new HandedDial(agentId, connection, flowPorts, clock, {
      answered: () => {
        owner.answered();
      },
      dropped: () => {
        owner.dropped();
      },
      over: () => {
        this.#dials.delete(handed);
        owner.over();
      },
    });
    this.#dials.add(handed);
    connection.ask(handed, connection.request.dialId);
    this.#connected().then(
      (http2) => {
        if (handed.isOver) return;
        handed.attach(new GrpcClientCarrier(http2, TARGET, UNCOUNTED, handed));
      },
      () => {
        handed.lost("agent_lost");
      },
    );
  }

  /** One HTTP/2 connection for all dials, opened for the first. */
  #connected(): Promise<Http2Connection> {
    if (this.#http2 !== undefined) return this.#http2;
    const forget = () => {
      if (this.#http2 === http2) this.#http2 = undefined;
    };
    const http2 = this.#connect(forget);
    this.#http2 = http2;
    http2.catch(forget);
    return http2;
  }

  async #connect(forget: () => void): Promise<Http2Connection> {
    const { clock } = this.#ports;
    const socket = await connectSocket({
      address: { kind: "unix", path: this.#path },
      timeoutMs: NEIGHBOUR_CONNECT_TIMEOUT_MS,
      clock,
    });
    const http2 = new Http2Connection(socket, "client", NEIGHBOUR_HTTP2, clock, {
      request: () => {
        throw new Error("a server cannot open streams");
      },
      goaway: forget,
      closed: forget,
    });
    if (this.#isGone) http2.destroy();
    return http2;
  }
}

/** A tunnel that a neighbour has. How busy others keep it is the neighbour's business. */
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
  /** Of those, dials that it has not answered. */
  #waitingCount = 0;
  #isDraining = false;

  constructor(agentId: string, identifiers: AgentIdentifiers, neighbour: Neighbour, clock: Clock) {
    this.agentId = agentId;
    this.identifiers = identifiers;
    this.#neighbour = neighbour;
    this.#clock = clock;
    this.#health = new DialHealth(clock);
    this.#openedAtMs = clock.now();
  }

  get standing(): Standing {
    const { state } = this.#health;
    // On trial, one dial is enough to find out.
    if (state === "failing" || (state === "trial" && this.#waitingCount > 0)) return "failing";
    return this.#isDraining ? "draining" : "sound";
  }

  get load(): number {
    return this.#waitingCount + this.#health.recentFailures;
  }

  get ageMs(): number {
    return this.#clock.now() - this.#openedAtMs;
  }

  get heldCount(): number {
    return this.#heldCount;
  }

  drain(): void {
    this.#isDraining = true;
  }

  listen(): void {
    // Which of its tunnels the neighbour uses, it decides itself.
  }

  dial(connection: Connection): void {
    this.#heldCount++;
    this.#waitingCount++;
    let isWaiting = true;
    const waitNoMore = () => {
      if (isWaiting) this.#waitingCount--;
      isWaiting = false;
    };
    this.#neighbour.dial(connection, this.agentId, {
      answered: () => {
        waitNoMore();
        this.#health.answered();
      },
      dropped: () => {
        this.#health.dropped();
      },
      over: () => {
        waitNoMore();
        this.#heldCount--;
      },
    });
  }

  dialUnanswered(askedAtMs: number): void {
    this.#health.unanswered(askedAtMs);
  }
}
