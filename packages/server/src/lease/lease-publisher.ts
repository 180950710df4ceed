import {
  ApiError,
  Backoff,
  apiErrorHint,
  jittered,
  leaseFrom,
  leasePath,
  microTime,
  recordOf,
} from "@reachback/common";
import type { CancelTimer } from "@reachback/common";
import type { LeaseOptions, LeasePorts } from "./lease-ports.ts";

/** Upstream's figures: how long a lease stands, and when it is renewed. */
const LEASE_SECONDS = 30;
const RENEW_INTERVAL_MS = 15_000;
const RENEW_JITTER = 0.04;
const RETRY = { initialMs: 200, capMs: 7_000, factor: 2, jitter: 0.1 };

/** So that there is time for another attempt before the lease ends. */
const REQUEST_TIMEOUT_MS = 5_000;

/** For the last words; the lease ends by itself soon after anyway. */
const STOP_TIMEOUT_MS = 2_000;

/** A lease that somebody else has changed meanwhile is read and written again so often at once. */
const MAX_CONFLICTS = 5;

/** Keeps this server's lease, by which agents count servers. */
export class LeasePublisher {
  readonly #options: LeaseOptions;
  readonly #ports: LeasePorts;
  readonly #backoff: Backoff;
  /** Nothing is read any more, and no further write begun. */
  readonly #stopping = new AbortController();
  /** The time to stop is over. */
  readonly #givingUp = new AbortController();
  /** The lease as the apiserver last gave it, with what others may have added to it. */
  #lease: Readonly<Record<string, unknown>> | undefined;
  #isPublished = false;
  #cancelTimer: CancelTimer | undefined;
  /** Ends with what is being written; never rejects. */
  #renewal: Promise<void> = Promise.resolve();

  constructor(options: LeaseOptions, ports: LeasePorts) {
    this.#options = options;
    this.#ports = ports;
    this.#backoff = new Backoff(RETRY, ports.random);
  }

  start(): void {
    this.#renewal = this.#renew();
  }

  /** Remove the lease, in two seconds at most. Never rejects. */
  async stop(): Promise<void> {
    this.#cancelTimer?.();
    this.#stopping.abort(new Error("the server is stopping"));
    let cancelTimeout: CancelTimer = () => undefined;
    // A request that waits for its credentials does not see that it is given up.
    const timeout = new Promise<void>((resolve) => {
      cancelTimeout = this.#ports.clock.schedule(STOP_TIMEOUT_MS, () => {
        this.#givingUp.abort(new Error(`no answer within ${STOP_TIMEOUT_MS / 1000} s`));
        resolve();
      });
    });
    // What is being written may have been done already. Only the answer says how to delete that.
    await Promise.race([this.#renewal.then(() => this.#delete()), timeout]);
    cancelTimeout();
  }

  /** Never rejects. */
  async #delete(): Promise<void> {
    try {
      this.#givingUp.signal.throwIfAborted();
      if (this.#lease === undefined) return;
      const { uid, resourceVersion } = leaseFrom(this.#lease);
      // If it was written since, then by another server of this id, whose lease it is now.
      await this.#write("DELETE", this.#path, { preconditions: { uid, resourceVersion } });
    } catch (error) {
      if (error instanceof ApiError && (error.status === 404 || error.status === 409)) return;
      this.#report("delete", error);
    }
  }

  get #name(): string {
    return `konnectivity-proxy-server-${this.#options.serverId}`;
  }

  get #path(): string {
    return leasePath(this.#options.namespace, this.#name);
  }

  /** Write the lease, and again when it is time. Never rejects. */
  async #renew(): Promise<void> {
    const { clock, logger, random } = this.#ports;
    let pauseMs: number;
    try {
      await this.#publish();
      pauseMs = jittered(RENEW_INTERVAL_MS, RENEW_JITTER, random);
      this.#backoff.reset();
      if (!this.#isPublished) {
        logger.info("lease.published", { lease: this.#name, namespace: this.#options.namespace });
      }
      this.#isPublished = true;
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      this.#isPublished = false;
      this.#report("publish", error);
      pauseMs = this.#backoff.next();
    }
    if (this.#stopping.signal.aborted) return;
    this.#cancelTimer = clock.schedule(pauseMs, () => {
      this.start();
    });
  }

  async #publish(): Promise<void> {
    for (let conflicts = 0; ; conflicts++) {
      try {
        this.#lease ??= await this.#read();
        this.#lease = recordOf(
          this.#lease === undefined
            ? await this.#write("POST", leasePath(this.#options.namespace), this.#filled({}))
            : await this.#write("PUT", this.#path, this.#filled(this.#lease)),
        );
        return;
      } catch (error) {
        // Gone, or written by somebody else: look again.
        this.#lease = undefined;
        if (this.#stopping.signal.aborted) throw error;
        const isOutdated = error instanceof ApiError && [404, 409].includes(error.status);
        const isCreation = error instanceof ApiError && error.message.startsWith("POST");
        const mayRetry = isOutdated && !(isCreation && error.status === 404);
        if (!mayRetry || conflicts >= MAX_CONFLICTS) throw error;
      }
    }
  }

  async #read(): Promise<Readonly<Record<string, unknown>> | undefined> {
    try {
      return recordOf(
        await this.#ports.kubernetes.request({
          method: "GET",
          path: this.#path,
          timeoutMs: REQUEST_TIMEOUT_MS,
          signal: this.#stopping.signal,
        }),
      );
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  /** The lease with everything that is ours in it. */
  #filled(lease: Readonly<Record<string, unknown>>): unknown {
    const { namespace, labels, serverId } = this.#options;
    const metadata = recordOf(lease["metadata"]);
    return {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: {
        ...metadata,
        name: this.#name,
        namespace,
        labels: { ...recordOf(metadata["labels"]), ...labels },
      },
      spec: {
        ...recordOf(lease["spec"]),
        holderIdentity: serverId,
        leaseDurationSeconds: LEASE_SECONDS,
        renewTime: microTime(this.#ports.clock.wallTimeMs()),
      },
    };
  }

  #write(method: "POST" | "PUT" | "DELETE", path: string, body: unknown): Promise<unknown> {
    const { signal } = this.#givingUp;
    const timeoutMs = REQUEST_TIMEOUT_MS;
    return this.#ports.kubernetes.request({ method, path, body, timeoutMs, signal });
  }

  #report(action: string, error: unknown): void {
    const { namespace } = this.#options;
    this.#ports.logger.warn("lease.failed", {
      action,
      lease: this.#name,
      error: error instanceof Error ? error.message : String(error),
      hint: apiErrorHint(error, `get, create, update and delete leases in namespace ${namespace}`),
    });
  }
}
