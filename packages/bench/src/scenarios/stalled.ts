import type { Direction } from "../load/load-task.ts";
import type { Plan } from "../plan.ts";
import type { BenchCase } from "../run/bench-case.ts";
import { anonymousBytesOf, measurePath, measuredValues, sum } from "../run/measure-path.ts";
import type { Metric } from "../run/metric.ts";
import type { Sample } from "../run/sample.ts";
import type { Lab } from "../subjects/lab.ts";
import type { Subject } from "../subjects/subject.ts";
import type { Scenario } from "./scenario.ts";

const MIB = 1024 * 1024;

const ECHO_CONNECTIONS = 20;
/** So that the tunnel, not the machine, decides how long an echo takes: some 3,000 in a second. */
const ECHO_PAUSE_MS = 5;
const DIAL_PAUSE_MS = 20;
const DIAL_TIMEOUT_MS = 2_000;
const SLACK_MS = 10_000;

const METRICS: readonly Metric[] = [
  { id: "p99Without", title: "p99 without", unit: "ms", better: "lower", isCompared: false },
  { id: "p99", title: "p99 with", unit: "ms", better: "lower", isCompared: true },
  { id: "rateKept", title: "echoes kept", unit: "%", better: "higher", isCompared: false },
  { id: "failed", title: "hung", unit: "", better: "lower", isCompared: false },
  {
    id: "dialP99Without",
    title: "dial p99 without",
    unit: "ms",
    better: "lower",
    isCompared: false,
  },
  { id: "dialP99", title: "with", unit: "ms", better: "lower", isCompared: false },
  { id: "dialsFailed", title: "dials failed", unit: "", better: "lower", isCompared: false },
  { id: "growth", title: "memory +", unit: "MiB", better: "lower", isCompared: false },
];

export const stalled: Scenario = {
  name: "stalled",
  summary: "one reader that has stopped, beside 20 echo connections and new dials",
  isQuick: true,
  cases: (plan) => [stalledCase(plan, "download"), stalledCase(plan, "upload")],
};

function stalledCase(plan: Plan, direction: Direction): BenchCase {
  const who = direction === "download" ? "client" : "endpoint";
  return {
    id: `stalled-${direction}`,
    title: `One stalled reader (the ${who}) beside ${ECHO_CONNECTIONS} echo connections`,
    metrics: METRICS,
    subjectIds: ["relay", "reachback", "reachback-grpc", "openssh", "peer"],
    referenceId: "relay",
    labLifetime: "sample",
    maxRounds: plan.stalledRounds,
    measure: (lab, subject) => measureStalled(lab, subject, plan, direction),
  };
}

async function measureStalled(
  lab: Lab,
  subject: Subject,
  plan: Plan,
  direction: Direction,
): Promise<Sample> {
  const { main: load, beside } = lab.loads;
  const { main: route, beside: besideRoute } = subject.routes;
  const durationMs = plan.stalledMs;
  const limitMs = durationMs + SLACK_MS;
  const echoSpec = { route, connections: ECHO_CONNECTIONS, durationMs, pauseMs: ECHO_PAUSE_MS };
  const dialsSpec = {
    route: besideRoute,
    parallel: 1,
    durationMs,
    pauseMs: DIAL_PAUSE_MS,
    byteCount: 64,
    timeoutMs: DIAL_TIMEOUT_MS,
  };
  const memory = () => sum(anonymousBytesOf(subject).values());

  const { result, processes, harnessCpuSeconds } = await measurePath(lab, subject, () =>
    load.withTask("echo", echoSpec, async (echo) => {
      const runBoth = async () => {
        const dialing = beside.withTask("dials", dialsSpec, (task) => task.run(limitMs));
        const [echoes, dials] = await Promise.all([echo.run(limitMs), dialing]);
        return { echoes, dials };
      };
      // What is slow only because it is the first of its kind does not count.
      await runBoth();
      const without = await runBoth();
      const memoryBefore = memory();
      return beside.withTask("stall", { route: besideRoute, direction }, async (stall) => {
        await stall.run(SLACK_MS);
        const withStall = await runBoth();
        return { without, withStall, growthBytes: memory() - memoryBefore };
      });
    }),
  );

  const { without, withStall, growthBytes } = result;
  const { count } = without.echoes;
  return {
    values: measuredValues({
      p99Without: without.echoes.p99Ms,
      p99: withStall.echoes.p99Ms,
      rateKept: count === 0 ? undefined : (withStall.echoes.count / count) * 100,
      failed: withStall.echoes.failed,
      dialP99Without: without.dials.p99Ms,
      dialP99: withStall.dials.p99Ms,
      dialsFailed: withStall.dials.failed,
      growth: processes.length === 0 ? undefined : growthBytes / MIB,
    }),
    processes,
    harnessCpuSeconds,
  };
}
