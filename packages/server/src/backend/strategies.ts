import type { Random } from "@reachback/common";
import type { ProxyStrategy } from "../options/proxy-strategies.ts";
import type { Backend } from "./backend.ts";
import { KeyedBackends } from "./keyed-backends.ts";

/** One way to find a backend for a host. It keeps the backends that it may choose. */
export interface Strategy {
  readonly name: ProxyStrategy;
  /** Keys it could choose: agents, or identifiers. */
  readonly keyCount: number;
  add(backend: Backend): void;
  remove(backend: Backend): void;
  /** A backend for `host`, or `undefined` if it has none: the next strategy is asked. */
  find(host: string): Backend | undefined;
}

/** Any agent that `accepts` lets in, chosen at random. */
class AnyAgent implements Strategy {
  readonly name: ProxyStrategy;
  readonly #accepts: (backend: Backend) => boolean;
  readonly #random: Random;
  readonly #backends = new KeyedBackends();

  constructor(name: ProxyStrategy, accepts: (backend: Backend) => boolean, random: Random) {
    this.name = name;
    this.#accepts = accepts;
    this.#random = random;
  }

  get keyCount(): number {
    return this.#backends.keyCount;
  }

  add(backend: Backend): void {
    if (this.#accepts(backend)) this.#backends.add(backend.agentId, backend);
  }

  remove(backend: Backend): void {
    this.#backends.remove(backend.agentId, backend);
  }

  find(): Backend | undefined {
    return this.#backends.pick(this.#random);
  }
}

/** The agent that has the host among its identifiers. */
class DestinationHost implements Strategy {
  readonly name = "destHost";
  readonly #backends = new KeyedBackends();

  get keyCount(): number {
    return this.#backends.keyCount;
  }

  add(backend: Backend): void {
    for (const host of hostsOf(backend)) this.#backends.add(host, backend);
  }

  remove(backend: Backend): void {
    for (const host of hostsOf(backend)) this.#backends.remove(host, backend);
  }

  find(host: string): Backend | undefined {
    return this.#backends.get(host);
  }
}

function hostsOf(backend: Backend): Set<string> {
  const { ipv4, ipv6, host } = backend.identifiers;
  const hosts = new Set([...ipv4, ...ipv6, ...host]);
  hosts.delete("");
  return hosts;
}

export function makeStrategy(name: ProxyStrategy, random: Random): Strategy {
  switch (name) {
    case "default":
      return new AnyAgent(name, () => true, random);
    case "destHost":
      return new DestinationHost();
    case "defaultRoute":
      return new AnyAgent(name, (backend) => backend.identifiers.defaultRoute, random);
  }
}
