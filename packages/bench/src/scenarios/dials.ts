import { measuredValues } from "../run/measure-path.ts";
import type { Metric } from "../run/metric.ts";
import { SUBJECT_IDS } from "../subjects/subject.ts";
import { runTask } from "./run-task.ts";
import type { Scenario } from "./scenario.ts";

const PARALLEL_DIALS = 8;
const EXCHANGE_BYTES = 1024;
const DIAL_TIMEOUT_MS = 5_000;

const METRICS: readonly Metric[] = [
  { id: "rate", title: "connections", unit: "/s", better: "higher", isCompared: true },
  { id: "p50", title: "p50", unit: "ms", better: "lower", isCompared: false },
  { id: "p99", title: "p99", unit: "ms", better: "lower", isCompared: true },
  { id: "cpuPerDial", title: "CPU each", unit: "µs", better: "lower", isCompared: true },
  { id: "failed", title: "failed", unit: "", better: "lower", isCompared: false },
];

export const dials: Scenario = {
  name: "dials",
  summary: "short connections: dial, 1 KiB each way, close; 8 at a time",
  isQuick: true,
  cases: (plan) => [
    {
      id: "dials-8",
      title: `Short connections, 1 KiB each way, ${PARALLEL_DIALS} at a time`,
      metrics: METRICS,
      subjectIds: SUBJECT_IDS,
      referenceId: "relay",
      labLifetime: "shared",
      measure: async (lab, subject) => {
        const { result, cpuSeconds, processes, harnessCpuSeconds } = await runTask(
          lab,
          subject,
          "dials",
          {
            route: subject.routes.main,
            parallel: PARALLEL_DIALS,
            durationMs: plan.dialsMs,
            pauseMs: 0,
            byteCount: EXCHANGE_BYTES,
            timeoutMs: DIAL_TIMEOUT_MS,
          },
          plan.dialsMs + DIAL_TIMEOUT_MS,
        );
        const { count, seconds, failed, firstFailure, p50Ms, p99Ms } = result;
        if (count === 0) throw new Error(`no connection succeeded: ${firstFailure}`);
        return {
          values: measuredValues({
            rate: count / seconds,
            p50: p50Ms,
            p99: p99Ms,
            cpuPerDial: cpuSeconds === undefined ? undefined : (cpuSeconds * 1e6) / count,
            failed,
          }),
          processes,
          harnessCpuSeconds,
          ...(failed > 0 ? { remark: `${failed} failed; the first: ${firstFailure}` } : {}),
        };
      },
    },
  ],
};
