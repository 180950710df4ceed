import { connectKubernetes } from "@reachback/common";
import type { Clock, KubernetesClient, Logger, MetricRegistry, Random } from "@reachback/common";
import { TokenAuthenticator } from "./authentication/token-authenticator.ts";
import type { ReviewedToken } from "./authentication/verdict.ts";
import { LeaseController } from "./lease/lease-controller.ts";
import type { ServerMetrics } from "./metrics.ts";
import type { ServerOptions } from "./options.ts";

export interface ApiserverPorts {
  readonly clock: Clock;
  /** Version of the program, for the user agent. */
  readonly version?: string;
  /** The environment: where a pod's apiserver is. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export interface DutyPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: ServerMetrics;
  readonly metricRegistry: MetricRegistry;
  /** From {@link connectApiserver}. */
  readonly kubernetes: KubernetesClient | undefined;
  /** See {@link TokenAuthenticator}. */
  readonly tokenReviewed?: ((reviewed: ReviewedToken) => void) | undefined;
}

/** Begins as upstream's, whose advice (KUBERNETES_MASTER) would be of no use. */
const NO_APISERVER =
  "invalid configuration: no configuration has been provided: set --kubeconfig, or run in a pod, " +
  "where KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are set";

/**
 * A client of the apiserver, if one is needed.
 *
 * @throws with upstream's first words if nothing says where it is.
 */
export async function connectApiserver(
  { tokenAuthentication, lease, kubeconfigPath }: ServerOptions,
  { clock, version = "unknown", env = {} }: ApiserverPorts,
): Promise<KubernetesClient | undefined> {
  if (tokenAuthentication === undefined && lease === undefined) return undefined;
  const userAgent = `reachback-server/${version}`;
  try {
    return await connectKubernetes(kubeconfigPath, { clock, env, userAgent });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const reason = kubeconfigPath === "" ? NO_APISERVER : error.message;
    throw new Error(`failed to load kubernetes client config: ${reason}`, { cause: error });
  }
}

/** What the server needs an apiserver's API for: reviews of agents' tokens, and its own lease. */
export class ApiserverDuties {
  /** `undefined` if agents need no token. */
  readonly authenticator: TokenAuthenticator | undefined;
  readonly #leases: LeaseController | undefined;
  readonly #kubernetes: KubernetesClient | undefined;
  #left: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;

  constructor({ tokenAuthentication, lease, serverId }: ServerOptions, ports: DutyPorts) {
    const { kubernetes } = ports;
    if (kubernetes === undefined) return;
    this.#kubernetes = kubernetes;
    if (tokenAuthentication !== undefined) {
      this.authenticator = new TokenAuthenticator(tokenAuthentication, { ...ports, kubernetes });
    }
    if (lease !== undefined) {
      this.#leases = new LeaseController({ ...lease, serverId }, { ...ports, kubernetes });
    }
  }

  /** The listeners are open: announce the server. */
  start(): void {
    this.#leases?.start();
  }

  /**
   * Remove the lease, so that agents stop counting this server; that takes two seconds at most.
   * Idempotent; never rejects.
   */
  leave(): Promise<void> {
    this.#left ??= this.#leases?.stop() ?? Promise.resolve();
    return this.#left;
  }

  /** {@link leave}, and admit no more agents. Idempotent; never rejects. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.authenticator?.stop();
    await this.leave();
    this.#kubernetes?.close();
  }
}
