import type { CaseResult } from "./case-result.ts";
import { CaseRun } from "./case-run.ts";
import { RoundBudget } from "./round-budget.ts";
import type { RunRequest } from "./run-request.ts";
import { SharedLab } from "./shared-lab.ts";

/** Measure everything: case by case, round by round, and in each round one subject after another. */
export async function runScenarios(request: RunRequest): Promise<CaseResult[]> {
  const { plan, observer } = request;
  const cases = request.scenarios.flatMap((scenario) =>
    scenario.cases(plan).map((benchCase) => ({ scenario: scenario.name, benchCase })),
  );
  const budget = new RoundBudget(plan.budgetMs, cases.length, performance.now());
  const labs = new SharedLab(request);
  const results: CaseResult[] = [];
  try {
    for (const [index, { scenario, benchCase }] of cases.entries()) {
      observer.caseStarted(benchCase.title, index, cases.length);
      const run = new CaseRun(benchCase, request, labs, budget);
      const result = { scenario, ...(await run.result()) };
      results.push(result);
      observer.caseFinished(result);
    }
  } finally {
    await labs.stop();
  }
  return results;
}
