import { startLab } from "../subjects/lab.ts";
import type { Lab, Unavailable } from "../subjects/lab.ts";
import { SUBJECT_TITLES } from "../subjects/subject.ts";
import type { SubjectId } from "../subjects/subject.ts";
import type { BenchCase } from "./bench-case.ts";
import { summarizeRows } from "./case-result.ts";
import type { CaseResult } from "./case-result.ts";
import type { RoundBudget } from "./round-budget.ts";
import { roundOrder } from "./round-order.ts";
import type { RunRequest } from "./run-request.ts";
import type { Sample } from "./sample.ts";
import { settleLab } from "./settle.ts";
import type { SharedLab } from "./shared-lab.ts";

/** A subject that failed so often in one case is left alone. */
const MAX_FAILURES = 2;

interface Row {
  readonly id: SubjectId;
  readonly title: string;
  readonly samples: (Sample | undefined)[];
  readonly failures: string[];
}

/** One case, from its first round to its last. */
export class CaseRun {
  readonly #case: BenchCase;
  readonly #request: RunRequest;
  readonly #sharedLab: SharedLab;
  readonly #budget: RoundBudget;
  readonly #rows: readonly Row[];
  readonly #unavailable = new Map<SubjectId, Unavailable>();

  constructor(
    benchCase: BenchCase,
    request: RunRequest,
    sharedLab: SharedLab,
    budget: RoundBudget,
  ) {
    this.#case = benchCase;
    this.#request = request;
    this.#sharedLab = sharedLab;
    this.#budget = budget;
    this.#rows = benchCase.subjectIds
      .filter((id) => request.subjectIds.includes(id))
      .map((id) => ({
        id,
        title: benchCase.rowTitles?.[id] ?? SUBJECT_TITLES[id],
        samples: [],
        failures: [],
      }));
  }

  async result(): Promise<Omit<CaseResult, "scenario">> {
    const { plan, observer } = this.#request;
    await this.#prepare();
    this.#budget.caseStarted(performance.now());
    const maxRounds = Math.min(plan.rounds, this.#case.maxRounds ?? Infinity);
    let rounds = 0;
    while (rounds < maxRounds && this.#budget.allowsRound(rounds, performance.now())) {
      for (const index of roundOrder(this.#rows.length, rounds)) {
        const row = this.#rows[index];
        if (row === undefined || !this.#takesPart(row)) continue;
        observer.measuring(row.title, rounds + 1, maxRounds);
        row.samples[rounds] = await this.#measure(row);
      }
      rounds++;
    }
    const { id, title, metrics } = this.#case;
    const referenceId = this.#request.referenceId ?? this.#case.referenceId;
    const present = this.#rows.filter(
      (row) => !this.#unavailable.has(row.id) || row.samples.some((sample) => sample !== undefined),
    );
    return {
      id,
      title,
      metrics,
      referenceId,
      rounds,
      rows: summarizeRows(metrics, present, referenceId),
      unavailable: [...this.#unavailable].map(([subjectId, why]) => ({ id: subjectId, ...why })),
    };
  }

  /** What starts and warms up now does not make the first round seem long. */
  async #prepare(): Promise<void> {
    if (this.#case.labLifetime === "sample") return;
    try {
      await this.#sharedLab.get(this.#case);
    } catch {
      // It will go wrong again, where it goes on record.
    }
  }

  #takesPart({ id, failures }: Row): boolean {
    return !this.#unavailable.has(id) && failures.length < MAX_FAILURES;
  }

  /** @returns `undefined` if it failed, or the subject is not there; either is then on record. */
  async #measure(row: Row): Promise<Sample | undefined> {
    try {
      if (this.#case.labLifetime === "shared") {
        const lab = await this.#sharedLab.get(this.#case);
        return await this.#measureIn(lab, row);
      }
      await this.#sharedLab.stop();
      const lab = await startLab(this.#request.material, {
        subjectIds: [row.id],
        rttMs: this.#case.rttMs,
        withUndelayed: this.#case.withUndelayed ?? false,
      });
      try {
        return await this.#measureIn(lab, row);
      } finally {
        await lab.stop();
      }
    } catch (error) {
      row.failures.push(error instanceof Error ? error.message : String(error));
      // Whatever it left behind must not spoil what comes next.
      await this.#sharedLab.stop();
      return undefined;
    }
  }

  async #measureIn(lab: Lab, row: Row): Promise<Sample | undefined> {
    const subject = lab.subjects.get(row.id);
    if (subject === undefined) {
      const why = lab.unavailable.get(row.id) ?? { reason: "it is not part", isFailure: false };
      this.#unavailable.set(row.id, why);
      return undefined;
    }
    await settleLab(lab);
    return this.#case.measure(lab, subject);
  }
}
