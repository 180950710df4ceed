import type { Plan } from "../plan.ts";
import type { BenchCase } from "../run/bench-case.ts";
import { BULK_METRICS, measureBulk } from "./bulk.ts";
import { ECHO_METRICS, measureEcho } from "./echo.ts";
import type { Scenario } from "./scenario.ts";

/** For those who doubt the bench: is it fast enough to measure what it measures? */
export const harness: Scenario = {
  name: "harness",
  summary: "the bench itself: direct TCP, and through the delay relay at no delay",
  isQuick: false,
  cases: (plan) => [
    ...harnessCases(plan, "direct TCP", "direct", {}),
    ...harnessCases(plan, "direct TCP through the delay relay at 0 ms", "delay", { rttMs: 0 }),
  ],
};

function harnessCases(
  plan: Plan,
  what: string,
  idPart: string,
  link: Pick<BenchCase, "rttMs">,
): BenchCase[] {
  const common = {
    subjectIds: ["direct"],
    referenceId: "direct",
    labLifetime: "shared",
    ...link,
  } as const;
  return [
    {
      ...common,
      id: `harness-${idPart}-download`,
      title: `Harness: bulk download, ${what}`,
      metrics: BULK_METRICS,
      measure: (lab, subject) => measureBulk(lab, subject, plan, "download", 1),
    },
    {
      ...common,
      id: `harness-${idPart}-upload`,
      title: `Harness: bulk upload, ${what}`,
      metrics: BULK_METRICS,
      measure: (lab, subject) => measureBulk(lab, subject, plan, "upload", 1),
    },
    {
      ...common,
      id: `harness-${idPart}-echo`,
      title: `Harness: echo of 64 bytes, 32 connections, ${what}`,
      metrics: ECHO_METRICS,
      measure: (lab, subject) => measureEcho(lab, subject, plan, 32),
    },
  ];
}
