import type { CancelTimer, Clock } from "@reachback/common";
import { DUPLICATE_MS } from "../backend/agent-pool.ts";
import type { Backend } from "../backend/backend.ts";
import type { BackendObserver } from "../backend/backend-registry.ts";
import type { TunnelChange } from "./messages.ts";

/** What is told of a tunnel. */
type ToldTunnel = Pick<Backend, "agentId" | "identifiers">;

/** The tunnels that one agent has here. */
interface AgentTunnels {
  /** By what number the others know them. */
  readonly told: Map<ToldTunnel, number>;
  /** Not told of yet; how not to be when it is time. */
  readonly untold: Map<ToldTunnel, CancelTimer>;
}

/**
 * What a worker lets the others know of its agents' tunnels.
 *
 * They hear at once of the first tunnel of an agent, of any further one only once it has lasted for
 * {@link DUPLICATE_MS}, or is all that is left: it is of no use to them before, because which tunnel
 * of an agent a dial takes is decided here. Behind a balancer the agent closes most further ones within
 * milliseconds, and to tell everybody of each took a fifth of what they cost.
 */
export class TunnelNews implements BackendObserver {
  readonly #clock: Clock;
  readonly #tell: (change: TunnelChange) => void;
  readonly #agents = new Map<string, AgentTunnels>();
  #lastTunnel = 0;

  constructor(clock: Clock, tell: (change: TunnelChange) => void) {
    this.#clock = clock;
    this.#tell = tell;
  }

  backendAdded(backend: ToldTunnel): void {
    const { agentId } = backend;
    const known = this.#agents.get(agentId);
    if (known === undefined) {
      const tunnels: AgentTunnels = { told: new Map(), untold: new Map() };
      this.#agents.set(agentId, tunnels);
      this.#tellOpened(tunnels, backend);
      return;
    }
    const cancel = this.#clock.schedule(DUPLICATE_MS, () => {
      known.untold.delete(backend);
      this.#tellOpened(known, backend);
    });
    known.untold.set(backend, cancel);
  }

  backendDraining(backend: ToldTunnel): void {
    const tunnels = this.#agents.get(backend.agentId);
    if (tunnels === undefined) return;
    this.#tellRest(tunnels);
    const tunnel = tunnels.told.get(backend);
    if (tunnel !== undefined) this.#tell({ type: "draining", tunnel });
  }

  backendRetired(backend: ToldTunnel): void {
    const { agentId } = backend;
    const tunnels = this.#agents.get(agentId);
    if (tunnels === undefined) return;
    const tunnel = tunnels.told.get(backend);
    if (tunnel === undefined) {
      tunnels.untold.get(backend)?.();
      tunnels.untold.delete(backend);
      return;
    }
    tunnels.told.delete(backend);
    // First what takes its place, so that the agent is never gone for a moment.
    if (tunnels.told.size === 0) this.#tellRest(tunnels);
    this.#tell({ type: "retired", tunnel });
    if (tunnels.told.size === 0) this.#agents.delete(agentId);
  }

  #tellRest(tunnels: AgentTunnels): void {
    for (const [backend, cancel] of tunnels.untold) {
      cancel();
      this.#tellOpened(tunnels, backend);
    }
    tunnels.untold.clear();
  }

  #tellOpened({ told }: AgentTunnels, backend: ToldTunnel): void {
    const tunnel = ++this.#lastTunnel;
    told.set(backend, tunnel);
    const { agentId, identifiers } = backend;
    this.#tell({ type: "opened", tunnel, agentId, identifiers });
  }
}
