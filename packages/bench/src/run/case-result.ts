import { summarize } from "../statistics.ts";
import type { Summary } from "../statistics.ts";
import type { Unavailable } from "../subjects/lab.ts";
import type { SubjectId } from "../subjects/subject.ts";
import type { Metric } from "./metric.ts";
import type { Sample } from "./sample.ts";

/** One subject in one case. */
export interface RowResult {
  readonly id: SubjectId;
  readonly title: string;
  /** By round; `undefined` where the measurement failed. */
  readonly samples: readonly (Sample | undefined)[];
  /** Why measurements failed. */
  readonly failures: readonly string[];
  /** By metric id. */
  readonly summaries: Readonly<Record<string, MetricSummary>>;
}

export interface MetricSummary extends Summary {
  /** To the reference of the same round; the median of that, over all rounds. */
  readonly ratio?: Summary;
}

export interface UnavailableRow extends Unavailable {
  readonly id: SubjectId;
}

export interface CaseResult {
  readonly id: string;
  readonly scenario: string;
  readonly title: string;
  readonly metrics: readonly Metric[];
  readonly referenceId: SubjectId;
  readonly rounds: number;
  readonly rows: readonly RowResult[];
  /** Who could not take part, and why. */
  readonly unavailable: readonly UnavailableRow[];
}

/** What has been measured of one subject. */
export interface RowSamples {
  readonly id: SubjectId;
  readonly title: string;
  readonly samples: readonly (Sample | undefined)[];
  readonly failures: readonly string[];
}

/** Turn samples into numbers to report. `reference` is one of `rows`, or missing. */
export function summarizeRows(
  metrics: readonly Metric[],
  rows: readonly RowSamples[],
  referenceId: SubjectId,
): RowResult[] {
  const reference = rows.find(({ id }) => id === referenceId)?.samples ?? [];
  return rows.map((row) => ({ ...row, summaries: summariesOf(metrics, row.samples, reference) }));
}

function summariesOf(
  metrics: readonly Metric[],
  samples: readonly (Sample | undefined)[],
  reference: readonly (Sample | undefined)[],
): Record<string, MetricSummary> {
  const summaries: Record<string, MetricSummary> = {};
  for (const { id } of metrics) {
    const values: number[] = [];
    const ratios: number[] = [];
    for (const [round, sample] of samples.entries()) {
      const value = sample?.values[id];
      if (value === undefined) continue;
      values.push(value);
      const base = reference[round]?.values[id];
      if (base !== undefined && base > 0) ratios.push(value / base);
    }
    const summary = summarize(values);
    if (summary === undefined) continue;
    const ratio = summarize(ratios);
    summaries[id] = ratio === undefined ? summary : { ...summary, ratio };
  }
  return summaries;
}
