import type { Plan } from "../plan.ts";
import type { CaseResult } from "../run/case-result.ts";
import type { Machine } from "./machine.ts";

/** Changes when a field changes its meaning or goes away; docs/benchmarks.md describes it. */
const SCHEMA = "reachback-bench/1";

/** A whole run, for machines. */
export interface JsonReport {
  readonly schema: typeof SCHEMA;
  readonly version: string;
  readonly startedAt: string;
  readonly durationSeconds: number;
  readonly machine: Machine;
  readonly plan: Plan;
  readonly cases: readonly CaseResult[];
}

export function jsonReport(report: Omit<JsonReport, "schema">): string {
  // Numbers as measured have digits that mean nothing and fill the file.
  const shorten = (_key: string, value: unknown) =>
    typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
  return `${JSON.stringify({ schema: SCHEMA, ...report }, shorten, 2)}\n`;
}
