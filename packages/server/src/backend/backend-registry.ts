import type { Random } from "@reachback/common";
import type { ProxyStrategy } from "../options/proxy-strategies.ts";
import type { Backend } from "./backend.ts";
import { makeStrategy } from "./strategies.ts";
import type { Strategy } from "./strategies.ts";

/** All backends, and how one is chosen for an address: the strategies are asked in their order. */
export class BackendRegistry {
  readonly #strategies: readonly Strategy[];
  readonly #backends = new Set<Backend>();

  constructor(strategies: readonly ProxyStrategy[], random: Random) {
    this.#strategies = strategies.map((name) => makeStrategy(name, random));
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

  pendingDialCount(): number {
    return sum(this.#backends, (backend) => backend.pendingDialCount);
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
    for (const strategy of this.#strategies) strategy.add(backend);
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

  /** The backend to dial `address` (`host:port`) with. */
  find(address: string): Backend | undefined {
    const host = hostOfAddress(address);
    for (const strategy of this.#strategies) {
      const backend = strategy.find(host);
      if (backend !== undefined) return backend;
    }
    return undefined;
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
