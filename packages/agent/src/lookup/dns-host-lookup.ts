import { readFileSync } from "node:fs";
import { Resolver } from "node:dns/promises";
import { isIPv4, isIPv6 } from "node:net";
import type { Clock } from "@reachback/common";
import { LookupError } from "./host-lookup.ts";
import type { HostLookup, LookupFailure } from "./host-lookup.ts";
import { hostsKey, parseHostsFile } from "./hosts-file.ts";
import { candidateNames, parseResolverConfig } from "./resolver-config.ts";
import type { ResolverConfig } from "./resolver-config.ts";

export interface DnsHostLookupOptions {
  /** @defaultValue `/etc/hosts` */
  readonly hostsPath?: string;
  /** @defaultValue `/etc/resolv.conf` */
  readonly resolverConfigPath?: string;
  /** Name servers, `address` or `address:port`; by default those of resolv.conf. */
  readonly servers?: readonly string[];
}

/**
 * For a name server to answer, before the next one is asked or the same one again; doubled with each
 * round. Node looks at it only as often, so it may take twice as long.
 */
const TRY_MS = 500;
const TRIES = 3;

/** How long one family of addresses waits for the other: RFC 8305's "resolution delay". */
const OTHER_FAMILY_MS = 50;

/** The same where all addresses are wanted: enough for a second name server after a mute one. */
const ALL_FAMILIES_MS = 2_000;

/** Kubernetes rewrites both files in the life of a pod; Go's programs look as often. */
const FILES_VALID_MS = 5_000;

const FAILURES: Readonly<Record<string, LookupFailure>> = {
  ENOTFOUND: "not-found",
  ENODATA: "not-found",
  EBADNAME: "not-found",
  ETIMEOUT: "timeout",
};

/** One at least; none of a family that has none, `undefined` of one that could not be learned. */
export interface AllAddresses {
  readonly v4: readonly string[] | undefined;
  readonly v6: readonly string[] | undefined;
}

/**
 * Looks names up as Go's resolver does, and so upstream's agent: in the hosts file, then with the name
 * servers and in the search domains of resolv.conf.
 *
 * Not with `dns.lookup`. That is the C library's blocking call on a thread, of which Node lets two
 * run at a time: two names whose servers do not answer, and nothing else is found for ten seconds.
 * Here a look-up is a few datagrams on the event loop. What the C library finds by other means
 * (nsswitch.conf: mDNS, LDAP) is not found, as it is not by upstream's agent.
 */
export class DnsHostLookup implements HostLookup {
  readonly #options: DnsHostLookupOptions;
  readonly #clock: Clock;
  #hosts: ReadonlyMap<string, readonly string[]> = new Map();
  #config: ResolverConfig = parseResolverConfig("");
  #filesReadAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, options: DnsHostLookupOptions = {}) {
    this.#clock = clock;
    this.#options = options;
  }

  /** The first addresses that are known: one family does not wait long for the other. */
  async lookup(name: string, signal: AbortSignal): Promise<readonly string[]> {
    signal.throwIfAborted();
    const listed = this.#listed(name);
    if (listed !== undefined) return listed;
    const { v4 = [], v6 = [] } = await this.#resolve(name, OTHER_FAMILY_MS, signal);
    return interleaved(v4, v6);
  }

  /**
   * Every address of `name`, of both families. One that has answered waits two seconds for the other.
   *
   * @throws {LookupError}, or `signal`'s reason when it aborts.
   */
  async lookupAll(name: string, signal: AbortSignal): Promise<AllAddresses> {
    signal.throwIfAborted();
    const listed = this.#listed(name);
    if (listed === undefined) return this.#resolve(name, ALL_FAMILIES_MS, signal);
    return { v4: listed.filter(isIPv4), v6: listed.filter(isIPv6) };
  }

  /** What the hosts file says. */
  #listed(name: string): readonly string[] | undefined {
    this.#readFiles();
    return this.#hosts.get(hostsKey(name));
  }

  async #resolve(name: string, otherFamilyMs: number, signal: AbortSignal): Promise<AllAddresses> {
    // One for each look-up, so that it can be given up alone. It costs 20 microseconds.
    const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
    if (this.#options.servers !== undefined) resolver.setServers(this.#options.servers);
    const cancel = () => {
      resolver.cancel();
    };
    signal.addEventListener("abort", cancel);
    try {
      return await this.#ask(resolver, name, otherFamilyMs, signal);
    } finally {
      signal.removeEventListener("abort", cancel);
      // The other family's question may still be open.
      resolver.cancel();
    }
  }

  async #ask(
    resolver: Resolver,
    name: string,
    otherFamilyMs: number,
    signal: AbortSignal,
  ): Promise<AllAddresses> {
    // A server that could not say may have known: "no such host" would be a lie then.
    let failure: LookupError | undefined;
    for (const candidate of candidateNames(name, this.#config)) {
      const answer = await this.#askBothFamilies(resolver, candidate, otherFamilyMs);
      signal.throwIfAborted();
      if (!(answer instanceof LookupError)) return answer;
      if (answer.failure !== "not-found") failure ??= answer;
    }
    throw failure ?? new LookupError("not-found", `${name} has no address`);
  }

  #askBothFamilies(
    resolver: Resolver,
    name: string,
    otherFamilyMs: number,
  ): Promise<AllAddresses | LookupError> {
    return new Promise((resolve) => {
      const found: Record<"v4" | "v6", readonly string[] | undefined> = {
        v4: undefined,
        v6: undefined,
      };
      let failure: LookupError | undefined;
      let answers = 0;
      let cancelDelay: (() => void) | undefined;
      const finish = () => {
        cancelDelay?.();
        const { v4 = [], v6 = [] } = found;
        resolve(
          v4.length + v6.length === 0
            ? (failure ?? new LookupError("not-found", `${name} has no address`))
            : { ...found },
        );
      };
      const answered = (family: "v4" | "v6", addresses: readonly string[] | undefined) => {
        answers++;
        found[family] = addresses;
        if (answers === 2) finish();
        else if (addresses !== undefined && addresses.length > 0) {
          cancelDelay = this.#clock.schedule(otherFamilyMs, finish);
        }
      };
      const failed = (family: "v4" | "v6", error: unknown) => {
        const reason = lookupErrorFrom(error);
        if (reason.failure === "not-found") {
          answered(family, []);
          return;
        }
        failure ??= reason;
        answered(family, undefined);
      };
      resolver.resolve4(name).then(
        (addresses) => {
          answered("v4", addresses);
        },
        (error: unknown) => {
          failed("v4", error);
        },
      );
      resolver.resolve6(name).then(
        (addresses) => {
          answered("v6", addresses);
        },
        (error: unknown) => {
          failed("v6", error);
        },
      );
    });
  }

  #readFiles(): void {
    const nowMs = this.#clock.now();
    if (nowMs - this.#filesReadAtMs < FILES_VALID_MS) return;
    this.#filesReadAtMs = nowMs;
    const { hostsPath = "/etc/hosts", resolverConfigPath = "/etc/resolv.conf" } = this.#options;
    this.#hosts = parseHostsFile(textOf(hostsPath));
    this.#config = parseResolverConfig(textOf(resolverConfigPath));
  }
}

function lookupErrorFrom(error: unknown): LookupError {
  const { code = "", message } = error as NodeJS.ErrnoException;
  return new LookupError(FAILURES[code] ?? "failed", message, error);
}

/** Families take turns, so that one which leads nowhere costs one attempt and not all of them. */
function interleaved(v4: readonly string[], v6: readonly string[]): string[] {
  const addresses: string[] = [];
  for (let at = 0; at < Math.max(v4.length, v6.length); at++) {
    addresses.push(...v4.slice(at, at + 1), ...v6.slice(at, at + 1));
  }
  return addresses;
}

/** Without the file there is nothing in it. */
function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
