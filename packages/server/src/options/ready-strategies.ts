/** Which strategies must have a backend before the server is ready. */
export type ReadyStrategies = "first" | "any" | "all";

const CHOICES: readonly ReadyStrategies[] = ["first", "any", "all"];

/** The choice made with `--ready-strategies`; a text that is none counts as upstream's. */
export function readyStrategiesFrom(text: string): ReadyStrategies {
  return CHOICES.find((choice) => choice === text) ?? "first";
}

export function readyStrategiesProblems(text: string): string[] {
  if (CHOICES.some((choice) => choice === text)) return [];
  return [`ready-strategies must be one of ${CHOICES.join(", ")}, got ${text}`];
}
