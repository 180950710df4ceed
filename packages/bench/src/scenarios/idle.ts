import { fdLimit } from "../processes/fd-limit.ts";
import { anonymousBytesOf, measurePath, measuredValues, sum } from "../run/measure-path.ts";
import type { Metric } from "../run/metric.ts";
import type { Sample } from "../run/sample.ts";
import type { Lab } from "../subjects/lab.ts";
import type { Subject } from "../subjects/subject.ts";
import type { Plan } from "../plan.ts";
import type { Scenario } from "./scenario.ts";

const METRICS: readonly Metric[] = [
  { id: "both", title: "both", unit: "KB", better: "lower", isCompared: true },
  { id: "near", title: "near end", unit: "KB", better: "lower", isCompared: false },
  { id: "far", title: "far end", unit: "KB", better: "lower", isCompared: false },
  { id: "dialRate", title: "opened", unit: "/s", better: "higher", isCompared: false },
];

/** Files a process has open beside its connections. */
const OTHER_FDS = 200;

/** Enough to load what is loaded on first use. */
const WARM_UP_CONNECTIONS = 10;

export const idle: Scenario = {
  name: "idle",
  summary: "memory of idle connections, in fresh processes",
  isQuick: true,
  cases: (plan) => {
    // A relay has two sockets for each connection.
    const most = Math.floor((fdLimit() - OTHER_FDS) / 2);
    const count = Math.min(plan.idleConnections, most);
    const note = count < plan.idleConnections ? " (the limit on open files allows no more)" : "";
    return [
      {
        id: `idle-${count}`,
        title: `Memory per idle connection, ${count} connections${note}`,
        metrics: METRICS,
        subjectIds: ["relay", "reachback", "reachback-grpc", "openssh", "peer"],
        referenceId: "relay",
        labLifetime: "sample",
        maxRounds: plan.idleRounds,
        measure: (lab, subject) => measureIdle(lab, subject, plan, count),
      },
    ];
  },
};

async function measureIdle(lab: Lab, subject: Subject, plan: Plan, count: number): Promise<Sample> {
  const { main: load } = lab.loads;
  const route = subject.routes.main;
  const settle = () => new Promise((resolve) => setTimeout(resolve, plan.idleSettleMs));

  const warmUp = { route, connections: WARM_UP_CONNECTIONS };
  await load.withTask("idle", warmUp, () => Promise.resolve());
  await settle();
  const without = anonymousBytesOf(subject);

  const { result, processes, harnessCpuSeconds } = await measurePath(lab, subject, async () => {
    const startedAtMs = performance.now();
    return load.withTask("idle", { route, connections: count }, async (task) => {
      const seconds = (performance.now() - startedAtMs) / 1000;
      await settle();
      const { open } = await task.run(5_000);
      if (open < count) throw new Error(`${count - open} of ${count} connections were lost`);
      return { seconds, withThem: anonymousBytesOf(subject) };
    });
  });

  const { seconds, withThem } = result;
  /** The near end is the process named first, the far end all others, if there are any. */
  const [nearName = ""] = without.size > 1 ? without.keys() : [];
  const growth = new Map(
    [...withThem].map(([name, bytes]) => [name, (bytes - (without.get(name) ?? 0)) / count / 1000]),
  );
  const near = growth.get(nearName);
  const both = growth.size === 0 ? undefined : sum(growth.values());
  return {
    values: measuredValues({
      both,
      near,
      far: both === undefined || near === undefined ? undefined : both - near,
      dialRate: count / seconds,
    }),
    processes,
    harnessCpuSeconds,
  };
}
