import type { ProxyStrategy } from "../options/proxy-strategies.ts";
import type { IsUsable } from "./agent-pool.ts";
import type { Backend } from "./backend.ts";
import { makeStrategy } from "./strategies.ts";
import type { Strategy } from "./strategies.ts";
import { firstNotFailing } from "./zoned-pool.ts";
import type { PoolSettings } from "./zoned-pool.ts";

/** All backends, and how one is chosen for an address: the strategies are asked in their order. */
export class BackendRegistry {
  readonly #strategies: readonly Strategy[];
  readonly #backends = new Set<Backend>();
  #onAdded: (() => void) | undefined;
  #lastChosen = 0;
  #hasHadBackend = false;

  constructor(strategies: readonly ProxyStrategy[], settings: PoolSettings) {
    this.#strategies = strategies.map((name) => makeStrategy(name, settings));
  }

  /** Call `listener` whenever there is a new backend. For one owner. */
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
    this.#hasHadBackend = true;
    for (const strategy of this.#strategies) strategy.add(backend);
    this.#onAdded?.();
  }

  /** Choose this one no more. Idempotent. */
  retire(backend: Backend): void {
    for (const strategy of this.#strategies) strategy.remove(backend);
  }

  /** The tunnel is over. */
  remove(backend: Backend): void {
    this.retire(backend);
    this.#backends.delete(backend);
  }

  /**
   * Choose a backend to dial `address` (`host:port`) with. The strategies are asked in their order:
   * the first that has one which does not fail decides, even if that one is draining.
   */
  choose(address: string, isUsable: IsUsable = () => true): Backend | undefined {
    const backend = firstNotFailing(this.#choices(hostOfAddress(address), isUsable));
    if (backend !== undefined) backend.lastChosen = ++this.#lastChosen;
    return backend;
  }

  *#choices(host: string, isUsable: IsUsable): Generator<Backend | undefined> {
    for (const strategy of this.#strategies) yield strategy.choose(host, isUsable);
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
