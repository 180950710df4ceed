import type { ProxyStrategy } from "../options/proxy-strategies.ts";
import type { IsUsable } from "./agent-pool.ts";
import type { Candidate } from "./candidate.ts";
import { parseIpAddress, parseIpPrefix, wholePrefix } from "./ip-address.ts";
import type { IpPrefix } from "./ip-address.ts";
import { PrefixTable } from "./prefix-table.ts";
import { ZonedPool, firstNotFailing } from "./zoned-pool.ts";
import type { PoolSettings } from "./zoned-pool.ts";

/** One way to find a backend for a host. It keeps the backends that it may choose. */
export interface Strategy {
  readonly name: ProxyStrategy;
  /** Keys it could choose: agents, or identifiers. */
  readonly keyCount: number;
  add(backend: Candidate): void;
  remove(backend: Candidate): void;
  /** A usable backend for `host`, or `undefined` if it has none: the next strategy is asked. */
  choose(host: string, isUsable: IsUsable): Candidate | undefined;
}

/** Any agent that `accepts` lets in. */
class AnyAgent implements Strategy {
  readonly name: ProxyStrategy;
  readonly #accepts: (backend: Candidate) => boolean;
  readonly #pool: ZonedPool;

  constructor(
    name: ProxyStrategy,
    accepts: (backend: Candidate) => boolean,
    settings: PoolSettings,
  ) {
    this.name = name;
    this.#accepts = accepts;
    this.#pool = new ZonedPool(settings);
  }

  get keyCount(): number {
    return this.#pool.agentCount;
  }

  add(backend: Candidate): void {
    if (this.#accepts(backend)) this.#pool.add(backend);
  }

  remove(backend: Candidate): void {
    this.#pool.remove(backend);
  }

  choose(_host: string, isUsable: IsUsable): Candidate | undefined {
    return this.#pool.choose(isUsable);
  }
}

/** What an agent claims: a name, or addresses. */
type Destination = string | IpPrefix;

/**
 * An agent that has the host among its identifiers. Names are compared letter by letter, as upstream
 * does; addresses as addresses, however they are written. An address counts more than a `cidr` that
 * contains it, and a longer prefix more than a shorter one.
 */
class DestinationHost implements Strategy {
  readonly name = "destHost";
  readonly #settings: PoolSettings;
  readonly #byName = new Map<string, ZonedPool>();
  readonly #byPrefix = new PrefixTable<ZonedPool>();

  constructor(settings: PoolSettings) {
    this.#settings = settings;
  }

  get keyCount(): number {
    return this.#byName.size + this.#byPrefix.size;
  }

  add(backend: Candidate): void {
    for (const destination of destinationsOf(backend)) {
      let pool = this.#poolOf(destination);
      if (pool === undefined) {
        pool = new ZonedPool(this.#settings);
        if (typeof destination === "string") this.#byName.set(destination, pool);
        else this.#byPrefix.set(destination, pool);
      }
      pool.add(backend);
    }
  }

  remove(backend: Candidate): void {
    for (const destination of destinationsOf(backend)) {
      const pool = this.#poolOf(destination);
      pool?.remove(backend);
      if (pool?.agentCount !== 0) continue;
      if (typeof destination === "string") this.#byName.delete(destination);
      else this.#byPrefix.delete(destination);
    }
  }

  choose(host: string, isUsable: IsUsable): Candidate | undefined {
    const address = parseIpAddress(host);
    if (address === undefined) return this.#byName.get(host)?.choose(isUsable);
    return firstNotFailing(choices(this.#byPrefix.matches(address), isUsable));
  }

  #poolOf(destination: Destination): ZonedPool | undefined {
    return typeof destination === "string"
      ? this.#byName.get(destination)
      : this.#byPrefix.get(destination);
  }
}

function* choices(
  pools: Iterable<ZonedPool>,
  isUsable: IsUsable,
): Generator<Candidate | undefined> {
  for (const pool of pools) yield pool.choose(isUsable);
}

/** Repeats do no harm. A `cidr` that is none matches nothing, as a name that nobody asks for. */
function destinationsOf({ identifiers }: Candidate): Destination[] {
  const { ipv4, ipv6, host, cidr } = identifiers;
  const hosts = [...ipv4, ...ipv6, ...host].filter((text) => text !== "");
  return [
    ...hosts.map((text) => {
      const address = parseIpAddress(text);
      return address === undefined ? text : wholePrefix(address);
    }),
    ...cidr.flatMap((text) => parseIpPrefix(text) ?? []),
  ];
}

export function makeStrategy(name: ProxyStrategy, settings: PoolSettings): Strategy {
  switch (name) {
    case "default":
      return new AnyAgent(name, () => true, settings);
    case "destHost":
      return new DestinationHost(settings);
    case "defaultRoute":
      return new AnyAgent(name, (backend) => backend.identifiers.defaultRoute, settings);
  }
}
