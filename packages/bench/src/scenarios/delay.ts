import type { Direction } from "../load/load-task.ts";
import type { Plan } from "../plan.ts";
import type { BenchCase } from "../run/bench-case.ts";
import type { Metric } from "../run/metric.ts";
import type { Sample } from "../run/sample.ts";
import { settleLab } from "../run/settle.ts";
import type { Lab } from "../subjects/lab.ts";
import { SUBJECT_IDS } from "../subjects/subject.ts";
import type { Subject } from "../subjects/subject.ts";
import { BULK_METRICS, measureBulk } from "./bulk.ts";
import { ECHO_METRICS, measureEcho } from "./echo.ts";
import type { Scenario } from "./scenario.ts";

const ECHO_CONNECTIONS = 32;

const DELAYED_BULK_METRICS: readonly Metric[] = [
  ...BULK_METRICS,
  {
    id: "undelayedRate",
    title: "without delay",
    unit: "MiB/s",
    better: "higher",
    isCompared: false,
  },
  { id: "rateKept", title: "kept", unit: "%", better: "higher", isCompared: false },
];

export const delay: Scenario = {
  name: "delay",
  summary: "bulk and echo over a link with a round trip of 10 and 50 ms",
  isQuick: false,
  cases: (plan) => plan.delaysMs.flatMap((rttMs) => delayCases(plan, rttMs)),
};

function delayCases(plan: Plan, rttMs: number): BenchCase[] {
  const common = {
    subjectIds: SUBJECT_IDS,
    // What the link itself lets through is what a tunnel over it can be asked for.
    referenceId: "direct",
    labLifetime: "shared",
    rttMs,
    withUndelayed: true,
    maxRounds: plan.delayRounds,
  } as const;
  const over = `over a round trip of ${rttMs} ms`;
  return [
    {
      ...common,
      id: `delay-${rttMs}-download`,
      title: `Bulk download, 1 connection, ${over}`,
      metrics: DELAYED_BULK_METRICS,
      measure: (lab, subject) => measureDelayedBulk(lab, subject, plan, "download"),
    },
    {
      ...common,
      id: `delay-${rttMs}-upload`,
      title: `Bulk upload, 1 connection, ${over}`,
      metrics: DELAYED_BULK_METRICS,
      measure: (lab, subject) => measureDelayedBulk(lab, subject, plan, "upload"),
    },
    {
      ...common,
      id: `delay-${rttMs}-echo`,
      title: `Echo of 64 bytes, ${ECHO_CONNECTIONS} connections, ${over}`,
      metrics: ECHO_METRICS,
      measure: (lab, subject) => measureEcho(lab, subject, plan, ECHO_CONNECTIONS),
    },
  ];
}

/** The same transfer without the delay first: what a machine gives can change within minutes. */
async function measureDelayedBulk(
  lab: Lab,
  subject: Subject,
  plan: Plan,
  direction: Direction,
): Promise<Sample> {
  const undelayed = lab.undelayed.get(subject.id);
  if (undelayed === undefined) throw new Error("there is no such path without a delay");
  const own = await measureBulk(lab, undelayed, plan, direction, 1);
  await settleLab(lab);
  const sample = await measureBulk(lab, subject, plan, direction, 1);
  const undelayedRate = own.values.rate;
  const rateKept = (sample.values.rate / undelayedRate) * 100;
  return { ...sample, values: { ...sample.values, undelayedRate, rateKept } };
}
