import { ClientError } from "@reachback/client";
import { connectionCounts } from "./connection-counts.ts";
import type { DemoStep } from "./demo-step.ts";
import type { Lab } from "./lab.ts";
import { NODE_NAMES } from "./lab-plan.ts";

/** What came of a step. */
export interface StepResult {
  readonly step: DemoStep;
  readonly durationMs: number;
  /** What came of it, as it should. */
  readonly outcome: string;
  /** Set if it did not go as it should. */
  readonly failure: { readonly expected: string; readonly got: string } | undefined;
}

const STEP_TIMEOUT_MS = 20_000;

/**
 * Perform one step, and check that the right agents opened its connections. Never rejects: whatever
 * goes wrong is a failure of the step.
 *
 * @param stopSignal - Aborts when the demo is to end; then the result means nothing.
 */
export async function performStep(
  step: DemoStep,
  lab: Lab,
  stopSignal: AbortSignal,
): Promise<StepResult> {
  const { clock } = lab;
  const deadline = new AbortController();
  const signal = AbortSignal.any([stopSignal, deadline.signal]);
  const cancelDeadline = clock.schedule(STEP_TIMEOUT_MS, () => {
    deadline.abort(new Error(`nothing within ${STEP_TIMEOUT_MS / 1000} s`));
  });
  let startedAtMs = clock.now();
  let endedAtMs: number | undefined;
  const resultWith = (outcome: string, failure?: StepResult["failure"]): StepResult => {
    return { step, durationMs: (endedAtMs ?? clock.now()) - startedAtMs, outcome, failure };
  };
  try {
    const before = step.nodes.length > 0 ? await connectionCounts(lab.plan, signal) : undefined;
    startedAtMs = clock.now();
    const outcome = await step.run(lab, signal);
    endedAtMs = clock.now();
    if (before === undefined) return resultWith(outcome);
    const after = await connectionCounts(lab.plan, signal);
    const used = NODE_NAMES.filter((node) => after[node] > before[node]);
    if (used.join() === step.nodes.join()) return resultWith(outcome);
    return resultWith(outcome, {
      expected: `connections through ${step.nodes.join(" and ")}`,
      got: used.length === 0 ? "none through any agent" : `some through ${used.join(" and ")}`,
    });
  } catch (error) {
    endedAtMs ??= clock.now();
    const reason: unknown = signal.aborted ? signal.reason : error;
    return resultWith("", { expected: step.expected, got: errorText(reason) });
  } finally {
    cancelDeadline();
  }
}

function errorText(error: unknown): string {
  if (error instanceof ClientError) return `${error.code}: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}
