import type { CaseResult, MetricSummary, RowResult } from "../run/case-result.ts";
import type { Metric } from "../run/metric.ts";
import { SUBJECT_TITLES } from "../subjects/subject.ts";
import { formatNumber, formatRatio } from "./format.ts";

const INDENT = "  ";
const GAP = "   ";

/** One case as a table: a row for each path, and beside each figure its ratio to the reference. */
export function caseTable(result: CaseResult): string {
  const metrics = result.metrics.filter(({ id }) =>
    result.rows.some(({ summaries }) => summaries[id] !== undefined),
  );
  const reference = result.rows.find(({ id }) => id === result.referenceId);
  const head = ["", ...metrics.flatMap((metric) => headCells(metric, reference !== undefined))];
  const body = result.rows.map((row) => [
    row.title,
    ...metrics.flatMap((metric) =>
      bodyCells(metric, row.summaries[metric.id], reference !== undefined),
    ),
  ]);
  const lines = [
    `${result.title} · ${roundsText(result.rounds)}`,
    ...alignColumns([head, ...body]).map((line) => INDENT + line),
    ...notes(result, reference).map((note) => INDENT + note),
  ];
  return `${lines.join("\n")}\n`;
}

function roundsText(rounds: number): string {
  return rounds === 1 ? "1 round" : `median of ${rounds} rounds`;
}

function headCells({ title, unit, isCompared }: Metric, hasReference: boolean): string[] {
  const cell = unit === "" ? title : unit === "/s" ? `${title}/s` : `${title}, ${unit}`;
  return isCompared && hasReference ? [cell, "ratio"] : [cell];
}

function bodyCells(
  { isCompared }: Metric,
  summary: MetricSummary | undefined,
  hasReference: boolean,
): string[] {
  const cell = formatNumber(summary?.median);
  return isCompared && hasReference ? [cell, formatRatio(summary?.ratio?.median)] : [cell];
}

function notes(result: CaseResult, reference: RowResult | undefined): string[] {
  return [
    ...(reference === undefined || result.rows.length === 1
      ? []
      : [`ratio: to ${reference.title}, of the same round`]),
    ...result.rows.flatMap(({ title, failures }) =>
      failures.slice(0, 1).map((failure) => `${title}: failed ${failures.length}x: ${failure}`),
    ),
    ...result.rows.flatMap(({ title, samples }) => {
      const remark = samples.find((sample) => sample?.remark !== undefined)?.remark;
      return remark === undefined ? [] : [`${title}: ${remark}`];
    }),
    ...result.unavailable.map(
      ({ id, reason, isFailure }) =>
        `${SUBJECT_TITLES[id]}: ${isFailure ? "did not start" : "skipped"}: ${reason}`,
    ),
  ];
}

/** The first column to the left, all others to the right. */
function alignColumns(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) {
      widths[column] = Math.max(widths[column] ?? 0, cell.length);
    }
  }
  return rows.map((row) =>
    row
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join(GAP)
      .trimEnd(),
  );
}
