import type { Lab, ProgramName } from "./lab.ts";
import type { NodeName } from "./lab-plan.ts";

/** Something that the demo does, and what must come of it. */
export interface DemoStep {
  readonly title: string;
  /** The frontends that its requests go through, for the table; `-` for none. */
  readonly frontends: string;
  /** The nodes whose agents must open connections for it; those of the others must not. */
  readonly nodes: readonly NodeName[];
  /** What must come of it, for the report when something else does. */
  readonly expected: string;
  /** Whose logs are worth a look then. */
  readonly programs: readonly ProgramName[];

  /**
   * Do it.
   *
   * @returns what came of it, for the table.
   * @throws {Error} if that is not what is expected; the message says what came instead. Also when
   * `signal` aborts.
   */
  run(lab: Lab, signal: AbortSignal): Promise<string>;
}
