import {
  ApiError,
  apiErrorHint,
  isLeaseValid,
  jittered,
  leaseListFrom,
  leasePath,
} from "@reachback/common";
import type { CancelTimer, Lease } from "@reachback/common";
import type { LeaseOptions, LeasePorts } from "./lease-ports.ts";

/** Upstream's; the jitter keeps servers that started together from doing all of it twice. */
const INTERVAL_MS = 15_000;
const JITTER = 0.1;

const REQUEST_TIMEOUT_MS = 5_000;

/** Removes the leases that servers have left behind. */
export class LeaseCollector {
  readonly #options: LeaseOptions;
  readonly #ports: LeasePorts;
  readonly #stopping = new AbortController();
  #cancelTimer: CancelTimer | undefined;

  constructor(options: LeaseOptions, ports: LeasePorts) {
    this.#options = options;
    this.#ports = ports;
  }

  start(): void {
    this.#cancelTimer = this.#ports.clock.schedule(
      jittered(INTERVAL_MS, JITTER, this.#ports.random),
      () => {
        void this.#collect();
      },
    );
  }

  stop(): void {
    this.#cancelTimer?.();
    this.#stopping.abort(new Error("the server is stopping"));
  }

  /** Never rejects. */
  async #collect(): Promise<void> {
    try {
      for (const lease of await this.#list()) {
        if (this.#isOver(lease)) await this.#delete(lease);
      }
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      const { namespace } = this.#options;
      this.#ports.logger.warn("lease.failed", {
        action: "collect",
        error: error instanceof Error ? error.message : String(error),
        hint: apiErrorHint(error, `list and delete leases in namespace ${namespace}`),
      });
    }
    if (!this.#stopping.signal.aborted) this.start();
  }

  /** A lease that does not say when it ends is not ours to judge. */
  #isOver(lease: Lease): boolean {
    const nowMs = this.#ports.clock.wallTimeMs();
    return lease.expiresAtMs !== undefined && !isLeaseValid(lease, nowMs);
  }

  async #list(): Promise<readonly Lease[]> {
    const { namespace, labels } = this.#options;
    const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
    const query = new URLSearchParams({ labelSelector: pairs.join(",") });
    const answer = await this.#timed(
      "GET",
      `${leasePath(namespace)}?${query.toString()}`,
      undefined,
      (status, reason, seconds) => {
        this.#ports.metrics.leasesListed(status, reason, seconds);
      },
    );
    return leaseListFrom(answer).leases;
  }

  async #delete({ name, uid, resourceVersion }: Lease): Promise<void> {
    try {
      await this.#timed(
        "DELETE",
        leasePath(this.#options.namespace, name),
        // Not if it has been renewed since it was listed.
        { preconditions: { uid, resourceVersion } },
        (status, reason, seconds) => {
          this.#ports.metrics.leaseDeleted(status, reason, seconds);
        },
      );
    } catch (error) {
      // Another server was faster, or its owner is back.
      if (error instanceof ApiError && (error.status === 404 || error.status === 409)) return;
      throw error;
    }
    this.#ports.metrics.leaseCulled();
    this.#ports.logger.info("lease.removed", { lease: name });
  }

  async #timed(
    method: "GET" | "DELETE",
    path: string,
    body: unknown,
    observe: (status: number, reason: string, seconds: number) => void,
  ): Promise<unknown> {
    const { clock, kubernetes } = this.#ports;
    const beganAtMs = clock.now();
    const seconds = () => (clock.now() - beganAtMs) / 1000;
    const { signal } = this.#stopping;
    const request = { method, path, timeoutMs: REQUEST_TIMEOUT_MS, signal };
    try {
      const answer = await kubernetes.request(body === undefined ? request : { ...request, body });
      observe(200, "", seconds());
      return answer;
    } catch (error) {
      if (error instanceof ApiError) observe(error.status, error.reason, seconds());
      throw error;
    }
  }
}
