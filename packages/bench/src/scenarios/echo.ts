import type { Plan } from "../plan.ts";
import { measuredValues } from "../run/measure-path.ts";
import type { Metric } from "../run/metric.ts";
import type { Sample } from "../run/sample.ts";
import type { Lab } from "../subjects/lab.ts";
import { SUBJECT_IDS } from "../subjects/subject.ts";
import type { Subject } from "../subjects/subject.ts";
import { runTask } from "./run-task.ts";
import type { Scenario } from "./scenario.ts";

export const ECHO_METRICS: readonly Metric[] = [
  { id: "rate", title: "echoes", unit: "/s", better: "higher", isCompared: true },
  { id: "p50", title: "p50", unit: "ms", better: "lower", isCompared: false },
  { id: "p99", title: "p99", unit: "ms", better: "lower", isCompared: true },
  { id: "cpuPerEcho", title: "CPU each", unit: "µs", better: "lower", isCompared: true },
  { id: "failed", title: "failed", unit: "", better: "lower", isCompared: false },
];

export const echo: Scenario = {
  name: "echo",
  summary: "64 bytes there and back, again and again, on 1, 32 and 256 connections",
  isQuick: true,
  cases: (plan) =>
    plan.echoConnections.map((connections) => ({
      id: `echo-${connections}`,
      title: `Echo of 64 bytes, ${connections === 1 ? "1 connection" : `${connections} connections`}`,
      metrics: ECHO_METRICS,
      subjectIds: SUBJECT_IDS,
      referenceId: "relay",
      labLifetime: "shared",
      measure: (lab, subject) => measureEcho(lab, subject, plan, connections),
    })),
};

export async function measureEcho(
  lab: Lab,
  subject: Subject,
  plan: Plan,
  connections: number,
): Promise<Sample> {
  const route = subject.routes.main;
  const { result, cpuSeconds, processes, harnessCpuSeconds } = await runTask(
    lab,
    subject,
    "echo",
    { route, connections, durationMs: plan.echoMs, pauseMs: 0 },
    plan.echoMs,
  );
  const { count, seconds, failed, p50Ms, p99Ms } = result;
  return {
    values: measuredValues({
      rate: count / seconds,
      p50: p50Ms,
      p99: p99Ms,
      cpuPerEcho: cpuSeconds === undefined || count === 0 ? undefined : (cpuSeconds * 1e6) / count,
      failed,
    }),
    processes,
    harnessCpuSeconds,
  };
}
