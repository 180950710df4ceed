import type { RunObserver } from "../run/run-request.ts";
import type { CaseResult } from "../run/case-result.ts";
import { formatElapsed } from "./format.ts";
import { caseTable } from "./text-table.ts";

/** Where a report goes. */
export interface ReportOutput {
  stdout(text: string): void;
  /** A terminal for a line of progress; `undefined` where none is watched. */
  readonly terminal: { write(text: string): void; readonly columns: number } | undefined;
}

const CLEAR_LINE = "\r\x1b[K";

/** Prints each table when it is complete and, on a terminal, one line of what is going on. */
export class Progress implements RunObserver {
  readonly #output: ReportOutput;
  readonly #now: () => number;
  readonly #startedAtMs: number;
  #where = "";

  constructor(output: ReportOutput, now: () => number) {
    this.#output = output;
    this.#now = now;
    this.#startedAtMs = now();
  }

  caseStarted(title: string, index: number, count: number): void {
    this.#where = `[${index + 1}/${count}] ${title}`;
    this.#show(this.#where);
  }

  measuring(what: string, round: number, rounds: number): void {
    this.#show(`${this.#where} · ${what} · round ${round} of ${rounds}`);
  }

  caseFinished(result: CaseResult): void {
    this.clear();
    this.#output.stdout(`${caseTable(result)}\n`);
  }

  /** Take the line away. */
  clear(): void {
    this.#output.terminal?.write(CLEAR_LINE);
  }

  #show(text: string): void {
    const { terminal } = this.#output;
    if (terminal === undefined) return;
    const line = `${formatElapsed(this.#now() - this.#startedAtMs)} ${text}`;
    terminal.write(CLEAR_LINE + line.slice(0, terminal.columns - 1));
  }
}
