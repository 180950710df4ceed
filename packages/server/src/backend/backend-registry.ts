import type { ProxyStrategy } from "../options/proxy-strategies.ts";
import type { IsUsable } from "./agent-pool.ts";
import type { Backend } from "./backend.ts";
import type { Candidate } from "./candidate.ts";
import { makeStrategy } from "./strategies.ts";
import type { Strategy } from "./strategies.ts";
import { firstNotFailing } from "./zoned-pool.ts";
import type { PoolSettings } from "./zoned-pool.ts";

/** Who wants to know which agents have a tunnel here. */
export interface BackendObserver {
  backendAdded(backend: Backend): void;
  /** Others are chosen before it from now on. */
  backendDraining(backend: Backend): void;
  /** It is not chosen any more. Comes once. */
  backendRetired(backend: Backend): void;
}

/**
 * All backends, and how one is chosen for an address: the strategies are asked in their order. A
 * worker also has its neighbours' agents here, for dials that none of its own is for.
 */
export class BackendRegistry {
  readonly #strategies: readonly Strategy[];
  /** The same strategies, over the agents of neighbours. */
  readonly #neighbourStrategies: readonly Strategy[];
  readonly #backends = new Set<Backend>();
  /** Those that may be chosen, by agent. */
  readonly #choosable = new Map<string, Set<Backend>>();
  #observer: BackendObserver | undefined;
  #onAdded: (() => void) | undefined;
  #lastChosen = 0;
  #hasHadBackend = false;

  constructor(strategies: readonly ProxyStrategy[], settings: PoolSettings) {
    this.#strategies = strategies.map((name) => makeStrategy(name, settings));
    this.#neighbourStrategies = strategies.map((name) => makeStrategy(name, settings));
  }

  /** Tell `observer` of every backend that comes and goes. For one owner. */
  observe(observer: BackendObserver): void {
    this.#observer = observer;
  }

  /** Call `listener` whenever there is a new backend, or a neighbour has one. For one owner. */
  onAdded(listener: () => void): void {
    this.#onAdded = listener;
  }

  /** Whether there has ever been a backend. */
  get hasHadBackend(): boolean {
    return this.#hasHadBackend;
  }

  /** Every backend, oldest first. */
  get backends(): ReadonlySet<Backend> {
    return this.#backends;
  }

  /** Keys by strategy: agents, or identifiers for `destHost`. */
  keyCounts(): Map<ProxyStrategy, number> {
    return new Map(this.#strategies.map(({ name, keyCount }) => [name, keyCount]));
  }

  agentCount(): number {
    return new Set(Array.from(this.#backends, (backend) => backend.agentId)).size;
  }

  connectionCount(): number {
    return sum(this.#backends, (backend) => backend.connectionCount);
  }

  /** Backends whose agent has to wait for a frontend that is full. */
  pausedCount(): number {
    return sum(this.#backends, (backend) => (backend.isReadingPaused ? 1 : 0));
  }

  add(backend: Backend): void {
    this.#backends.add(backend);
    const { agentId } = backend;
    const tunnels = this.#choosable.get(agentId);
    if (tunnels === undefined) this.#choosable.set(agentId, new Set([backend]));
    else tunnels.add(backend);
    this.#observer?.backendAdded(backend);
    this.#added(this.#strategies, backend);
  }

  /** The agent drains. */
  draining(backend: Backend): void {
    this.#observer?.backendDraining(backend);
  }

  /** Choose this one no more. Idempotent. */
  retire(backend: Backend): void {
    const tunnels = this.#choosable.get(backend.agentId);
    if (tunnels?.delete(backend) !== true) return;
    if (tunnels.size === 0) this.#choosable.delete(backend.agentId);
    for (const strategy of this.#strategies) strategy.remove(backend);
    this.#observer?.backendRetired(backend);
  }

  /** A neighbour has an agent. */
  addNeighbour(agent: Candidate): void {
    this.#added(this.#neighbourStrategies, agent);
  }

  removeNeighbour(agent: Candidate): void {
    for (const strategy of this.#neighbourStrategies) strategy.remove(agent);
  }

  /** The tunnel is over. */
  remove(backend: Backend): void {
    this.retire(backend);
    this.#backends.delete(backend);
  }

  /**
   * Choose a backend to dial `address` (`host:port`) with. The strategies are asked in their order:
   * the first that has one which does not fail decides, even if that one is draining. Of a neighbour's
   * agents only those are considered that have no tunnel here, and none where a strategy has one here.
   */
  choose(address: string, isUsable: IsUsable = () => true): Candidate | undefined {
    return this.#chosen(this.#choices(hostOfAddress(address), isUsable));
  }

  /** As {@link choose}, without the neighbours' agents. */
  chooseOwn(address: string, isUsable: IsUsable = () => true): Candidate | undefined {
    return this.#chosen(this.#ownChoices(hostOfAddress(address), isUsable));
  }

  #chosen(choices: Iterable<Candidate | undefined>): Candidate | undefined {
    const candidate = firstNotFailing(choices);
    if (candidate !== undefined) candidate.lastChosen = ++this.#lastChosen;
    return candidate;
  }

  *#choices(host: string, isUsable: IsUsable): Generator<Candidate | undefined> {
    const isUsableThere: IsUsable = (agent) =>
      !this.#choosable.has(agent.agentId) && isUsable(agent);
    for (const [index, strategy] of this.#strategies.entries()) {
      const own = strategy.choose(host, isUsable);
      const other =
        own?.standing === "sound"
          ? undefined
          : this.#neighbourStrategies[index]?.choose(host, isUsableThere);
      // One that drains would never be done if it were asked although a neighbour has another.
      yield* other?.standing === "sound" ? [other, own] : [own, other];
    }
  }

  *#ownChoices(host: string, isUsable: IsUsable): Generator<Candidate | undefined> {
    for (const strategy of this.#strategies) yield strategy.choose(host, isUsable);
  }

  #added(strategies: readonly Strategy[], candidate: Candidate): void {
    this.#hasHadBackend = true;
    for (const strategy of strategies) strategy.add(candidate);
    this.#onAdded?.();
  }
}

/** The host of `host:port`, `[ipv6]:port` or a bare IPv6 address, as upstream cuts it out. */
export function hostOfAddress(address: string): string {
  if (address.split(":").length <= 2) return address.split(":")[0] ?? "";
  const withoutPort = address.includes("[") ? address.slice(0, address.lastIndexOf(":")) : address;
  return withoutPort.replace(/^[[\]]+|[[\]]+$/g, "");
}

function sum(backends: Iterable<Backend>, countOf: (backend: Backend) => number): number {
  let total = 0;
  for (const backend of backends) total += countOf(backend);
  return total;
}
