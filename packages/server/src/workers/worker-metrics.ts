import {
  Counter,
  MetricRegistry,
  familyOfReading,
  familyText,
  sumOfReadings,
  unlabelled,
} from "@reachback/common";
import type { FamilyReading, FamilyTextSource, ProcessMetrics } from "@reachback/common";
import type { WorkerReport } from "./messages.ts";

/** Where the reports of workers come from. */
export interface ReportSource {
  /** Ask all workers how they do. */
  refresh(): Promise<void>;
  /** What they have said last. */
  reports(): readonly WorkerReport[];
}

/**
 * The metrics of a server with workers: sums over all of them. What a worker has counted stays in the
 * sum after its end, as far as it was read, so that counters never go back.
 */
export class WorkerMetrics implements FamilyTextSource {
  readonly registry = new MetricRegistry();
  readonly #source: ReportSource;
  readonly #processMetrics: Pick<ProcessMetrics, "textsWith"> | undefined;
  readonly #lost = new Counter();
  readonly #socketsDropped = new Counter();
  /** Counters and histograms of workers that are gone. */
  #ended: readonly FamilyReading[] = [];

  constructor(
    source: ReportSource,
    processMetrics: Pick<ProcessMetrics, "textsWith"> | undefined,
    runningCount: () => number,
  ) {
    this.#source = source;
    this.#processMetrics = processMetrics;
    this.registry.addSource(this);
    this.registry.add({
      name: "reachback_server_workers",
      help: "Worker processes that run at this moment.",
      type: "gauge",
      collect: () => unlabelled(runningCount()),
    });
    this.registry.add({
      name: "reachback_server_workers_lost_total",
      help: "Worker processes that have died, and were replaced.",
      type: "counter",
      collect: () => unlabelled(this.#lost.value),
    });
    this.registry.add({
      name: "reachback_server_sockets_dropped_total",
      help: "Accepted sockets that were closed because no worker could take them.",
      type: "counter",
      collect: () => unlabelled(this.#socketsDropped.value),
    });
  }

  /** An accepted socket was closed, because no worker could take it. */
  socketDropped(): void {
    this.#socketsDropped.add();
  }

  /** A worker has died. @param last - What it had said of itself. */
  workerLost(last: WorkerReport | undefined): void {
    this.#lost.add();
    const counted = (last?.state.metrics ?? []).filter(({ type }) => type !== "gauge");
    this.#ended = sumOfReadings([this.#ended, counted]);
  }

  async texts(): Promise<ReadonlyMap<string, string>> {
    await this.#source.refresh();
    const reports = this.#source.reports();
    const sums = sumOfReadings([this.#ended, ...reports.map(({ state }) => state.metrics)]);
    const own = await this.#processMetrics?.textsWith(reports.map(({ process }) => process));
    return new Map([
      ...(own ?? []),
      ...sums.map((family) => [family.name, familyText(familyOfReading(family))] as const),
    ]);
  }
}
