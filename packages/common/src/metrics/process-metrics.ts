import { readdir, stat } from "node:fs/promises";
import { AggregatorRegistry, Gauge, Registry, collectDefaultMetrics } from "prom-client";
import type { FamilyTextSource } from "./metric-registry.ts";

const OPEN_FDS = "process_open_fds";
const FD_FOLDER = "/proc/self/fd";

/**
 * How often the lag of the event loop is sampled. Each sample wakes an idle process: at
 * prom-client's own 10 ms that costs 0.3 % of a core, at 20 ms half of it.
 */
const LAG_SAMPLING_MS = 20;

/**
 * Families that walk every handle of the process, several times per scrape, for numbers that the
 * programs' own gauges give by name.
 */
const LEFT_OUT = [
  "nodejs_active_handles",
  "nodejs_active_handles_total",
  "nodejs_active_requests",
  "nodejs_active_requests_total",
  "nodejs_active_resources",
  "nodejs_active_resources_total",
];

/**
 * The `process_*` and `nodejs_*` families of prom-client, for a {@link MetricRegistry}.
 *
 * To be made once, by the executable: the lag sampler and the observer of garbage collections that
 * prom-client starts cannot be stopped. Neither keeps the process alive.
 */
export class ProcessMetrics implements FamilyTextSource {
  readonly #registry = new Registry();

  constructor() {
    collectDefaultMetrics({
      register: this.#registry,
      eventLoopMonitoringPrecision: LAG_SAMPLING_MS,
    });
    for (const name of LEFT_OUT) this.#registry.removeSingleMetric(name);
    this.#replaceOpenFds();
  }

  texts(): Promise<ReadonlyMap<string, string>> {
    return textsOf(this.#registry);
  }

  /** The families as plain values, which may go to another process: see {@link textsWith}. */
  readings(): Promise<readonly object[]> {
    return this.#registry.getMetricsAsJSON();
  }

  /**
   * The families of this process and of others together: sums, and averages of delays. What cannot be
   * put together, such as a start time, is this process's.
   */
  async textsWith(others: readonly (readonly object[])[]): Promise<ReadonlyMap<string, string>> {
    const all = [await this.readings(), ...others];
    const together = await textsOf(AggregatorRegistry.aggregate(all));
    return new Map([...(await this.texts()), ...together]);
  }

  /** prom-client's own reads the folder synchronously: 7 ms of standstill at 10 000 sockets. */
  #replaceOpenFds(): void {
    if (this.#registry.getSingleMetric(OPEN_FDS) === undefined) return;
    this.#registry.removeSingleMetric(OPEN_FDS);
    new Gauge({
      name: OPEN_FDS,
      help: "Number of open file descriptors.",
      registers: [this.#registry],
      async collect() {
        const count = await countOpenFds();
        if (count !== undefined) this.set(count);
      },
    });
  }
}

async function textsOf(registry: Registry): Promise<ReadonlyMap<string, string>> {
  return new Map(
    await Promise.all(
      registry
        .getMetricsAsArray()
        .map(
          async ({ name }) => [name, `${await registry.getSingleMetricAsString(name)}\n`] as const,
        ),
    ),
  );
}

/** Since Linux 6.2 the size of the folder is the number of its entries; before, it is 0. */
async function countOpenFds(): Promise<number | undefined> {
  try {
    const { size } = await stat(FD_FOLDER);
    // Reading the folder opens it, so that it counts itself.
    return size > 0 ? size : (await readdir(FD_FOLDER)).length - 1;
  } catch {
    // No procfs; one missing number must not cost all the others.
    return undefined;
  }
}
