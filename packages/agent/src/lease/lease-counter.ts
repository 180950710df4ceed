import {
  ApiError,
  Backoff,
  apiErrorHint,
  isLeaseValid,
  jittered,
  leaseFrom,
  leaseListFrom,
  leasePath,
  recordOf,
  textOf,
} from "@reachback/common";
import type {
  CancelTimer,
  Clock,
  KubernetesClient,
  LabelSelector,
  Lease,
  Logger,
  Random,
} from "@reachback/common";
import type { AgentMetrics } from "../metrics.ts";
import type { ServerCountSource } from "../servers/server-count.ts";

/** Whom to believe (`--server-count-source`): leases alone, or whichever count is larger. */
export type ServerCountRule = "leases" | "max";

/** Which leases are those of servers. */
export interface LeaseCounterOptions {
  readonly namespace: string;
  readonly selector: LabelSelector;
  readonly rule: ServerCountRule;
}

export interface LeaseCounterPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly kubernetes: Pick<KubernetesClient, "request" | "watch">;
  readonly metrics: Pick<AgentMetrics, "leasesListed" | "leasesWatched">;
}

const LIST_TIMEOUT_MS = 10_000;

/** The apiserver is asked to end a watch after so long, client-go's figure, and up to twice that. */
const WATCH_SECONDS = 300;

/** Servers renew each 15 s, and the apiserver sends a bookmark a minute: silence is a dead watch. */
const WATCH_SILENCE_MS = 150_000;

/** After a failure. The jitter spreads thousands of agents that lose the same apiserver. */
const RETRY = { initialMs: 1_000, capMs: 30_000, factor: 2, jitter: 1 };

/** From a lease's end to the list that makes sure of it, so that not all agents list at once. */
const DOUBT_MS = { least: 100, most: 3_000 };

/**
 * Counts servers by their leases: a list, then a watch, and again from the start when that ends.
 *
 * What the apiserver says counts at once. That a lease has ended because nothing was heard of it is
 * looked up first: it may be the watch that has died. While the apiserver cannot be asked the count
 * stays what it was.
 */
export class LeaseCounter implements ServerCountSource {
  readonly #options: LeaseCounterOptions;
  readonly #ports: LeaseCounterPorts;
  readonly #backoff: Backoff;
  #onChange: (() => void) | undefined;
  readonly #stopping = new AbortController();
  /** By name. */
  readonly #leases = new Map<string, Lease>();
  /** At least 1; `undefined` until the apiserver has been reached for the first time. */
  #counted: number | undefined;
  #cancelPause: CancelTimer | undefined;
  #cancelDoubt: CancelTimer | undefined;
  /** Ends the watch that is under way, so that a list follows. */
  #watching: AbortController | undefined;

  constructor(options: LeaseCounterOptions, ports: LeaseCounterPorts) {
    this.#options = options;
    this.#ports = ports;
    this.#backoff = new Backoff(RETRY, ports.random);
  }

  /** Until leases are known, servers are believed. */
  count(announced: number): number {
    if (this.#counted === undefined) return announced;
    return this.#options.rule === "max" ? Math.max(announced, this.#counted) : this.#counted;
  }

  start(onChange: () => void): void {
    this.#onChange = onChange;
    void this.#follow();
  }

  stop(): void {
    this.#cancelPause?.();
    this.#cancelDoubt?.();
    this.#stopping.abort(new Error("the agent is stopping"));
    this.#watching?.abort(this.#stopping.signal.reason);
  }

  /** One list and one watch, then the pause before the next. Never rejects. */
  async #follow(): Promise<void> {
    const { clock, random } = this.#ports;
    let pauseMs: number;
    try {
      const resourceVersion = await this.#list();
      const end = await this.#watch(resourceVersion);
      pauseMs = end === "doubt" ? 0 : jittered(RETRY.initialMs, RETRY.jitter, random);
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      this.#report(error);
      pauseMs = this.#backoff.next();
    }
    if (this.#stopping.signal.aborted) return;
    this.#cancelPause = clock.schedule(pauseMs, () => {
      void this.#follow();
    });
  }

  /** Returns the version at which a watch goes on. */
  async #list(): Promise<string> {
    const { clock, kubernetes, metrics } = this.#ports;
    const beganAtMs = clock.now();
    const seconds = () => (clock.now() - beganAtMs) / 1000;
    try {
      const answer = await kubernetes.request({
        method: "GET",
        path: this.#path({}),
        timeoutMs: LIST_TIMEOUT_MS,
        signal: this.#stopping.signal,
      });
      metrics.leasesListed(200, "", seconds());
      const { leases, resourceVersion } = leaseListFrom(answer);
      this.#leases.clear();
      for (const lease of leases) this.#put(lease);
      this.#recount();
      return resourceVersion;
    } catch (error) {
      if (error instanceof ApiError) metrics.leasesListed(error.status, error.reason, seconds());
      throw error;
    }
  }

  /** Returns why it ended, if it ever began: to make sure of a lease, or by the apiserver. */
  async #watch(resourceVersion: string): Promise<"doubt" | "over"> {
    const { kubernetes, metrics, random } = this.#ports;
    const watching = new AbortController();
    const timeoutSeconds = Math.round(jittered(WATCH_SECONDS, 1, random));
    const query = { watch: "1", allowWatchBookmarks: "true", resourceVersion };
    this.#watching = watching;
    this.#expectEnd();
    const progress: { hasStarted: boolean } = { hasStarted: false };
    try {
      await kubernetes.watch({
        path: this.#path({ ...query, timeoutSeconds: String(timeoutSeconds) }),
        silenceMs: WATCH_SILENCE_MS,
        signal: watching.signal,
        started: () => {
          progress.hasStarted = true;
          this.#backoff.reset();
          metrics.leasesWatched(200, "");
        },
        event: (event) => {
          this.#apply(recordOf(event));
        },
      });
      return "over";
    } catch (error) {
      if (error === LEASE_IN_DOUBT) return "doubt";
      if (error instanceof ApiError && !progress.hasStarted) {
        metrics.leasesWatched(error.status, error.reason);
      }
      // Watches break off, and versions get too old: the list that follows makes up for it.
      if (progress.hasStarted && error instanceof ApiError) return "over";
      throw error;
    } finally {
      this.#watching = undefined;
      this.#cancelDoubt?.();
    }
  }

  #apply(event: Readonly<Record<string, unknown>>): void {
    const object = recordOf(event["object"]);
    switch (event["type"]) {
      case "ADDED":
      case "MODIFIED":
        this.#put(leaseFrom(object));
        break;
      case "DELETED":
        this.#leases.delete(leaseFrom(object).name);
        break;
      case "ERROR": {
        const status = Number(textOf(object["code"]));
        const reason = textOf(object["reason"]);
        throw new ApiError(`watch of leases: ${textOf(object["message"])}`, status, reason);
      }
      default:
        return;
    }
    this.#recount();
    this.#expectEnd();
  }

  #put(lease: Lease): void {
    if (this.#options.selector.matches(lease.labels)) this.#leases.set(lease.name, lease);
    else this.#leases.delete(lease.name);
  }

  #recount(): void {
    const nowMs = this.#ports.clock.wallTimeMs();
    let valid = 0;
    for (const lease of this.#leases.values()) if (isLeaseValid(lease, nowMs)) valid++;
    // The agent needs a server to be of any use, so it looks for one, as upstream's does.
    const count = Math.max(valid, 1);
    if (count === this.#counted) return;
    this.#counted = count;
    this.#ports.logger.info("servers.counted", { count, leases: valid });
    this.#onChange?.();
  }

  /** Look again when the next lease ends, unless something is heard of it before. */
  #expectEnd(): void {
    const { clock, random } = this.#ports;
    this.#cancelDoubt?.();
    const nowMs = clock.wallTimeMs();
    let nextMs = Infinity;
    for (const lease of this.#leases.values()) {
      if (isLeaseValid(lease, nowMs)) nextMs = Math.min(nextMs, lease.expiresAtMs ?? Infinity);
    }
    if (nextMs === Infinity) return;
    const { least, most } = DOUBT_MS;
    const doubtMs = least + (most - least) * random.fraction();
    this.#cancelDoubt = clock.schedule(nextMs - nowMs + doubtMs, () => {
      this.#watching?.abort(LEASE_IN_DOUBT);
    });
  }

  #path(query: Readonly<Record<string, string>>): string {
    const { namespace, selector } = this.#options;
    const parameters = new URLSearchParams(query);
    const labels = selector.toString();
    if (labels !== "") parameters.set("labelSelector", labels);
    return `${leasePath(namespace)}?${parameters.toString()}`;
  }

  #report(error: unknown): void {
    const { namespace } = this.#options;
    this.#ports.logger.warn("lease.failed", {
      action: "count",
      error: error instanceof Error ? error.message : String(error),
      servers: this.#counted,
      hint: apiErrorHint(error, `get, list and watch leases in namespace ${namespace}`),
    });
  }
}

const LEASE_IN_DOUBT = new Error("a lease seems to have ended");
