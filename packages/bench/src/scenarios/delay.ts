import type { Plan } from "../plan.ts";
import type { BenchCase } from "../run/bench-case.ts";
import { SUBJECT_IDS } from "../subjects/subject.ts";
import { BULK_METRICS, measureBulk } from "./bulk.ts";
import { ECHO_METRICS, measureEcho } from "./echo.ts";
import type { Scenario } from "./scenario.ts";

const ECHO_CONNECTIONS = 32;

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
    maxRounds: plan.delayRounds,
  } as const;
  const over = `over a round trip of ${rttMs} ms`;
  return [
    {
      ...common,
      id: `delay-${rttMs}-download`,
      title: `Bulk download, 1 connection, ${over}`,
      metrics: BULK_METRICS,
      measure: (lab, subject) => measureBulk(lab, subject, plan, "download", 1),
    },
    {
      ...common,
      id: `delay-${rttMs}-upload`,
      title: `Bulk upload, 1 connection, ${over}`,
      metrics: BULK_METRICS,
      measure: (lab, subject) => measureBulk(lab, subject, plan, "upload", 1),
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
