import type { Clock, KubernetesClient, Logger, Random } from "@reachback/common";
import type { ServerMetrics } from "../metrics.ts";

/** The leases of servers. */
export interface LeaseOptions {
  readonly namespace: string;
  /** What the leases of all servers have in common, and nothing else has. */
  readonly labels: Readonly<Record<string, string>>;
  /** Whose lease is kept. */
  readonly serverId: string;
}

export interface LeasePorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly kubernetes: Pick<KubernetesClient, "request">;
  readonly metrics: Pick<ServerMetrics, "leasesListed" | "leaseDeleted" | "leaseCulled">;
}
