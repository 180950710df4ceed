import type { Plan } from "../plan.ts";
import type { Scenario } from "../scenarios/scenario.ts";
import type { LabMaterial } from "../subjects/lab.ts";
import type { SubjectId } from "../subjects/subject.ts";
import type { CaseResult } from "./case-result.ts";

/** Told what is going on. */
export interface RunObserver {
  caseStarted(title: string, index: number, count: number): void;
  /** `what` is a subject's title. */
  measuring(what: string, round: number, rounds: number): void;
  caseFinished(result: CaseResult): void;
}

export interface RunRequest {
  readonly scenarios: readonly Scenario[];
  /** Who takes part, of those that a case has. */
  readonly subjectIds: readonly SubjectId[];
  /** What ratios are to; `undefined` for what each case has. */
  readonly referenceId: SubjectId | undefined;
  readonly plan: Plan;
  readonly material: LabMaterial;
  readonly observer: RunObserver;
}
