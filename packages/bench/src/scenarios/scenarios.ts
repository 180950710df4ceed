import { beside } from "./beside.ts";
import { bulk } from "./bulk.ts";
import { delay } from "./delay.ts";
import { dials } from "./dials.ts";
import { echo } from "./echo.ts";
import { harness } from "./harness.ts";
import { idle } from "./idle.ts";
import type { Scenario } from "./scenario.ts";
import { stalled } from "./stalled.ts";

/** In the order in which they run. */
export const SCENARIOS: readonly Scenario[] = [
  bulk,
  echo,
  dials,
  idle,
  stalled,
  beside,
  delay,
  harness,
];

/** Those that run when none is named. */
export function defaultScenarios(isQuick: boolean): readonly Scenario[] {
  return SCENARIOS.filter((scenario) => scenario !== harness && (!isQuick || scenario.isQuick));
}
