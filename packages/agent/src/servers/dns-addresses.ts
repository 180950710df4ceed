import { isIP } from "node:net";
import type { CancelTimer, Clock, Logger, Random } from "@reachback/common";
import { MAX_SERVER_ADDRESSES, SERVER_LOOKUP_TIMEOUT_MS, SUSPECT_LOOKUP_MS } from "../limits.ts";
import type { AllAddresses, DnsHostLookup } from "../lookup/dns-host-lookup.ts";
import type { AddressSource } from "./address-source.ts";
import type { ServerAddress } from "./server-address.ts";

export interface DnsAddressesPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly lookup: Pick<DnsHostLookup, "lookupAll">;
}

/** Look-ups come up to so much earlier, so that agents that started together do not ask together. */
const JITTER = 0.1;

/**
 * Names whose every A and AAAA record is a server, looked up again and again; an IP address stands for
 * itself.
 *
 * What is known outlives every failure to learn more: a name server that is away, or a name without
 * any address, takes no server away. So it is with each address family alone: a resolver that fails
 * for one of them, be it for ever, keeps nobody from following the other.
 */
export class DnsAddresses implements AddressSource {
  readonly isShared = false;
  readonly #names: readonly WatchedName[];
  readonly #logger: Logger;
  #current: readonly ServerAddress[] = [];
  #onChange: () => void = () => undefined;

  constructor(hosts: readonly ServerAddress[], intervalMs: number, ports: DnsAddressesPorts) {
    this.#logger = ports.logger;
    this.#names = hosts.map(
      (host) =>
        new WatchedName(host, intervalMs, ports, () => {
          this.#update();
        }),
    );
  }

  get current(): readonly ServerAddress[] {
    return this.#current;
  }

  start(onChange: () => void): void {
    this.#onChange = onChange;
    for (const name of this.#names) name.start();
  }

  suspect(): void {
    for (const name of this.#names) name.lookSoon();
  }

  stop(): void {
    for (const name of this.#names) name.stop();
  }

  #update(): void {
    const all = this.#names.flatMap(({ addresses }) => addresses);
    this.#current = all.slice(0, MAX_SERVER_ADDRESSES);
    this.#logger.info("servers.found", {
      addresses: this.#current.map(({ host }) => host).join(" "),
    });
    if (all.length > this.#current.length) {
      this.#logger.warn("servers.ignored", {
        count: all.length - this.#current.length,
        hint: `DNS names more than ${MAX_SERVER_ADDRESSES} servers; the rest gets no tunnel`,
      });
    }
    this.#onChange();
  }
}

/** One name, and what it led to last. */
class WatchedName {
  readonly #host: ServerAddress;
  readonly #intervalMs: number;
  readonly #ports: DnsAddressesPorts;
  readonly #onChange: () => void;
  /** What each family had when it was last learned. */
  #families: { readonly v4: readonly string[]; readonly v6: readonly string[] } = {
    v4: [],
    v6: [],
  };
  /** All of them, sorted: name servers turn their answers round. */
  #hosts: readonly string[] = [];
  #lookup: AbortController | undefined;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #cancelWait: CancelTimer | undefined;
  #isStopped = false;

  constructor(
    host: ServerAddress,
    intervalMs: number,
    ports: DnsAddressesPorts,
    onChange: () => void,
  ) {
    this.#host = host;
    this.#intervalMs = intervalMs;
    this.#ports = ports;
    this.#onChange = onChange;
  }

  get addresses(): readonly ServerAddress[] {
    const { port, name } = this.#host;
    return this.#hosts.map((host) => ({ host, port, name }));
  }

  start(): void {
    if (isIP(this.#host.host) === 0) {
      void this.#look();
      return;
    }
    this.#hosts = [this.#host.host];
    this.#onChange();
  }

  /** Look it up now, but for {@link SUSPECT_LOOKUP_MS} after the last time. */
  lookSoon(): void {
    if (isIP(this.#host.host) !== 0 || this.#lookup !== undefined || this.#isStopped) return;
    const dueMs = this.#lookedAtMs + SUSPECT_LOOKUP_MS;
    this.#waitFor(Math.min(this.#intervalMs, Math.max(0, dueMs - this.#ports.clock.now())));
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancelWait?.();
    this.#lookup?.abort();
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    const { clock, random, lookup, logger } = this.#ports;
    const abort = new AbortController();
    this.#lookup = abort;
    const cancelTimeout = clock.schedule(SERVER_LOOKUP_TIMEOUT_MS, () => {
      abort.abort(new Error("no answer in time"));
    });
    try {
      const found = await lookup.lookupAll(this.#host.host, abort.signal);
      if (!this.#isStopped) this.#found(found);
    } catch (error) {
      if (!this.#isStopped) {
        logger.warn("servers.lookup_failed", {
          name: this.#host.name,
          error: error instanceof Error ? error.message : String(error),
          kept: this.#hosts.length,
        });
      }
    } finally {
      cancelTimeout();
      this.#lookup = undefined;
      this.#lookedAtMs = clock.now();
      this.#waitFor(this.#intervalMs * (1 - JITTER * random.fraction()));
    }
  }

  #found({ v4 = this.#families.v4, v6 = this.#families.v6 }: AllAddresses): void {
    this.#families = { v4, v6 };
    const hosts = [...new Set([...v4, ...v6])].sort();
    if (hosts.join() === this.#hosts.join()) return;
    this.#hosts = hosts;
    this.#onChange();
  }

  #waitFor(delayMs: number): void {
    this.#cancelWait?.();
    if (this.#isStopped) return;
    this.#cancelWait = this.#ports.clock.schedule(delayMs, () => {
      void this.#look();
    });
  }
}
