import type { Direction } from "../load/load-task.ts";
import type { Plan } from "../plan.ts";
import type { BenchCase } from "../run/bench-case.ts";
import { measuredValues } from "../run/measure-path.ts";
import type { Metric } from "../run/metric.ts";
import type { Sample } from "../run/sample.ts";
import type { Lab } from "../subjects/lab.ts";
import { SUBJECT_IDS } from "../subjects/subject.ts";
import type { Subject } from "../subjects/subject.ts";
import { runTask } from "./run-task.ts";
import type { Scenario } from "./scenario.ts";

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

export const BULK_METRICS: readonly Metric[] = [
  { id: "rate", title: "rate", unit: "MiB/s", better: "higher", isCompared: true },
  { id: "cpuPerGib", title: "CPU", unit: "s/GiB", better: "lower", isCompared: true },
  { id: "peak", title: "peak memory", unit: "MiB", better: "lower", isCompared: false },
];

export const bulk: Scenario = {
  name: "bulk",
  summary: "as much as possible, down and up, over 1 and 8 connections",
  isQuick: true,
  cases: (plan) =>
    plan.bulkConnections.flatMap((connections) => [
      bulkCase(plan, "download", connections),
      bulkCase(plan, "upload", connections),
    ]),
};

function bulkCase(plan: Plan, direction: Direction, connections: number): BenchCase {
  return {
    id: `bulk-${direction}-${connections}`,
    title: `Bulk ${direction}, ${connections === 1 ? "1 connection" : `${connections} connections`}`,
    metrics: BULK_METRICS,
    subjectIds: SUBJECT_IDS,
    referenceId: "relay",
    labLifetime: "shared",
    measure: (lab, subject) => measureBulk(lab, subject, plan, direction, connections),
  };
}

interface BulkSample extends Sample {
  readonly values: Sample["values"] & { readonly rate: number };
}

export async function measureBulk(
  lab: Lab,
  subject: Subject,
  plan: Plan,
  direction: Direction,
  connections: number,
): Promise<BulkSample> {
  const { result, cpuSeconds, peakBytes, processes, harnessCpuSeconds } = await runTask(
    lab,
    subject,
    "bulk",
    {
      route: subject.routes.main,
      direction,
      connections,
      byteCount: plan.bulkBytes,
      limitMs: plan.bulkLimitMs,
    },
    plan.bulkLimitMs,
  );
  const { byteCount, seconds } = result;
  if (byteCount === 0) throw new Error(`nothing arrived in ${seconds.toFixed(1)} s`);
  return {
    values: {
      ...measuredValues({
        cpuPerGib: cpuSeconds === undefined ? undefined : cpuSeconds / (byteCount / GIB),
        peak: peakBytes === undefined ? undefined : peakBytes / MIB,
      }),
      rate: byteCount / MIB / seconds,
    },
    processes,
    harnessCpuSeconds,
  };
}
