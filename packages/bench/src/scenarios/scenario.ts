import type { Plan } from "../plan.ts";
import type { BenchCase } from "../run/bench-case.ts";

/** A group of cases that is run together. */
export interface Scenario {
  /** For `--scenario`. */
  readonly name: string;
  readonly summary: string;
  /** Whether `--quick` has it when no scenario is named. */
  readonly isQuick: boolean;
  cases(plan: Plan): readonly BenchCase[];
}
