import type { DemoStep } from "./demo-step.ts";
import type { Paint } from "./paint.ts";
import type { StepResult } from "./perform-step.ts";

/** What the report needs of a process. */
export interface LoggingProgram {
  readonly name: string;
  /** How it ended; `undefined` while it runs. */
  readonly ending: string | undefined;
  lastLines(count: number): readonly string[];
}

/** Fits a wide terminal, and is the same in a pipe. */
const WIDTH = 110;

const GAP = "  ";

const PASS = "ok";
const FAIL = "FAIL";
const MARK_WIDTH = FAIL.length;

const TAIL_LINES = 12;

/** Progress: the line for a step that is done. Its outcome is left to the table. */
export function progressLine(result: StepResult, steps: readonly DemoStep[], paint: Paint): string {
  return `${progressCells(result, steps, paint).join(GAP)}\n`;
}

/** The line for a step of the set-up: with its outcome, because no table shows it. */
export function setupLine(result: StepResult, steps: readonly DemoStep[], paint: Paint): string {
  const indent = MARK_WIDTH + titleWidthOf(steps) + DURATION_WIDTH + 3 * GAP.length;
  const start = progressCells(result, steps, paint).join(GAP) + GAP;
  return `${start}${wrapped(outcomeText(result), indent)}\n`;
}

/** @param steps - all that are to follow each other, for the width of the column. */
function progressCells(
  result: StepResult,
  steps: readonly DemoStep[],
  paint: Paint,
): readonly string[] {
  return [
    markOf(result, paint),
    progressTitle(result.step).padEnd(titleWidthOf(steps)),
    paint.faint(durationText(result.durationMs).padStart(DURATION_WIDTH)),
  ];
}

function titleWidthOf(steps: readonly DemoStep[]): number {
  return Math.max(...steps.map((step) => progressTitle(step).length));
}

/** A title that tells two steps of the same name apart. */
function progressTitle({ title, frontends }: DemoStep): string {
  return frontends === "-" ? title : `${title} (${frontends})`;
}

const DURATION_WIDTH = "999 ms".length;

const LEGEND =
  "through: the server's frontend; agent: whose metrics counted the connections, and nobody else's";

const HEADINGS = ["", "what", "through", "agent", "time", "outcome"] as const;

/** The results as a table: a row each, columns aligned, long outcomes on several lines. */
export function resultTable(results: readonly StepResult[], paint: Paint): string {
  const rows = results.map(({ step, durationMs }) => [
    "",
    step.title,
    step.frontends,
    agentsText(step),
    durationText(durationMs),
  ]);
  const widths = HEADINGS.slice(0, -1).map((heading, column) =>
    Math.max(heading.length, ...rows.map((cells) => cells[column]?.length ?? 0)),
  );
  widths[0] = MARK_WIDTH;
  const align = (cells: readonly string[]) =>
    cells.map((cell, column) => {
      const width = widths[column] ?? 0;
      return HEADINGS[column] === "time" ? cell.padStart(width) : cell.padEnd(width);
    });
  const indent = widths.reduce((sum, width) => sum + width + GAP.length, 0);

  const head = paint.faint([...align(HEADINGS.slice(0, -1)), HEADINGS.at(-1)].join(GAP));
  const body = results.map((result, i) => {
    const [, ...cells] = align(rows[i] ?? []);
    return [markOf(result, paint), ...cells, wrapped(outcomeText(result), indent)].join(GAP);
  });
  return `${[head, ...body, "", paint.faint(LEGEND)].join("\n")}\n`;
}

function agentsText({ nodes }: DemoStep): string {
  return nodes.length > 1 ? "both" : (nodes[0] ?? "-");
}

/** Everything that helps to find out why a step failed. */
export function failureReport(
  result: StepResult,
  programs: readonly LoggingProgram[],
  paint: Paint,
): string {
  const { failure, step } = result;
  if (failure === undefined) return "";
  const lines = [
    `${paint.bad(FAIL)}${GAP}${step.title}`,
    `  expected: ${failure.expected}`,
    `  got:      ${failure.got}`,
    ...programs.flatMap((program) => [
      `  ${program.name}${endingText(program)}, end of its log:`,
      ...tailOf(program).map((line) => `    ${line}`),
    ]),
  ];
  return `${lines.join("\n")}\n`;
}

function endingText({ ending }: LoggingProgram): string {
  return ending === undefined ? "" : ` (ended with ${ending})`;
}

function tailOf(program: LoggingProgram): readonly string[] {
  const lines = program.lastLines(TAIL_LINES);
  return lines.length === 0 ? ["(empty)"] : lines;
}

function markOf({ failure }: StepResult, paint: Paint): string {
  return failure === undefined
    ? paint.good(PASS.padEnd(MARK_WIDTH))
    : paint.bad(FAIL.padEnd(MARK_WIDTH));
}

function outcomeText({ outcome, failure }: StepResult): string {
  return failure === undefined ? outcome : `expected ${failure.expected}; got ${failure.got}`;
}

/** Three digits or fewer: `7 ms`, `1.3 s`. */
export function durationText(durationMs: number): string {
  const rounded = Math.round(durationMs);
  return rounded < 1_000 ? `${rounded} ms` : `${(durationMs / 1_000).toFixed(1)} s`;
}

/** Text that begins in column `indent`, with further lines below; long words are not broken. */
function wrapped(text: string, indent: number): string {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    if (line !== "" && indent + line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = "";
    }
    line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line].join(`\n${" ".repeat(indent)}`);
}
