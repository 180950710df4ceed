import type { Clock } from "@reachback/common";

/** What the command gets from the process it runs in. */
export interface CliHost {
  /** Arguments only, without the interpreter and the script. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The current folder. */
  readonly cwd: string;
  readonly clock: Clock;
  stdout(text: string): void;
  stderr(text: string): void;
}
