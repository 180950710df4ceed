import { summarizeRows } from "../src/run/case-result.ts";
import type { CaseResult, RowSamples } from "../src/run/case-result.ts";
import type { Metric } from "../src/run/metric.ts";
import type { Sample } from "../src/run/sample.ts";

export const METRICS: readonly Metric[] = [
  { id: "rate", title: "rate", unit: "MiB/s", better: "higher", isCompared: true },
  { id: "cpu", title: "CPU", unit: "s/GiB", better: "lower", isCompared: true },
  { id: "failed", title: "failed", unit: "", better: "lower", isCompared: false },
];

export function sample(values: Record<string, number>): Sample {
  return { values, processes: [], harnessCpuSeconds: 0 };
}

export function caseResult(
  rows: readonly RowSamples[],
  rest: Partial<CaseResult> = {},
): CaseResult {
  return {
    id: "bulk-download-1",
    scenario: "bulk",
    title: "Bulk download",
    metrics: METRICS,
    referenceId: "relay",
    rounds: Math.max(...rows.map(({ samples }) => samples.length)),
    rows: summarizeRows(METRICS, rows, "relay"),
    unavailable: [],
    ...rest,
  };
}

/** Two paths over three rounds; in the second, everything was half as fast. */
export const TWO_PATHS: readonly RowSamples[] = [
  {
    id: "relay",
    title: "Node TLS relay",
    samples: [1000, 500, 1020].map((rate) => sample({ rate, cpu: 2, failed: 0 })),
    failures: [],
  },
  {
    id: "reachback",
    title: "Reachback, CONNECT",
    samples: [900, 450, 816].map((rate) => sample({ rate, cpu: 2.5, failed: 0 })),
    failures: [],
  },
];
