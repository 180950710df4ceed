import { OpsListener, metricsRoute, profilingRoutes, serverHealthRoutes } from "@reachback/common";
import type { Clock, Logger, MetricRegistry, OpsRoute, ReadinessCheck } from "@reachback/common";
import type { ServerOptions } from "./options.ts";

/** What the health and the admin listener tell. */
export interface OpsSubject {
  readonly metricRegistry: MetricRegistry;
  readonly readinessChecks: readonly ReadinessCheck[];
  /** Brings what the checks look at up to date. */
  readonly refresh?: () => Promise<void>;
  /** Instead of this process's profiles. */
  readonly profiling?: readonly OpsRoute[];
}

interface OpsPorts {
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The health and the admin listener of a server, whether it has workers or not. */
export class OpsListeners {
  #health: OpsListener | undefined;
  #admin: OpsListener | undefined;

  /** @throws in upstream's words if one of them cannot be opened. */
  async open(options: ServerOptions, subject: OpsSubject, ports: OpsPorts): Promise<void> {
    const { metricRegistry, readinessChecks, refresh } = subject;
    const profiling = subject.profiling ?? serverProfilingRoutes(options, ports);
    this.#admin = await OpsListener.open(
      {
        name: "admin server",
        host: options.adminBindAddress,
        port: options.adminPort,
        routes: [metricsRoute(metricRegistry), ...profiling],
      },
      ports,
    );
    this.#health = await OpsListener.open(
      {
        name: "health server",
        host: options.healthBindAddress,
        port: options.healthPort,
        routes: [...serverHealthRoutes(readinessChecks, refresh), metricsRoute(metricRegistry)],
      },
      ports,
    );
  }

  get healthPort(): number {
    return this.#health?.port ?? 0;
  }

  get adminPort(): number {
    return this.#admin?.port ?? 0;
  }

  /** Idempotent; resolves when all connections are gone. */
  async close(): Promise<void> {
    await Promise.all([this.#health?.close(), this.#admin?.close()]);
  }
}

/** Profiles of this process. */
export function serverProfilingRoutes(
  { enableProfiling, enableContentionProfiling }: ServerOptions,
  ports: OpsPorts,
): readonly OpsRoute[] {
  return profilingRoutes(
    { enabled: enableProfiling, contention: enableContentionProfiling },
    ports,
  );
}
