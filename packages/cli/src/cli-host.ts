import type { Clock } from "@reachback/common";

/** Why the process is to end: a signal, or that nobody reads its output any more. */
export type StopSignal = "SIGHUP" | "SIGINT" | "SIGTERM" | "SIGPIPE";

/** What the command gets from the process it runs in. */
export interface CliHost {
  /** Arguments only, without the interpreter and the script. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The current folder. */
  readonly cwd: string;
  readonly pid: number;
  /** Node, to start other programs with. */
  readonly nodePath: string;
  readonly clock: Clock;
  stdout(text: string): void;
  stderr(text: string): void;
  /** Whether somebody sees standard output as it comes. */
  readonly stdoutIsTerminal: boolean;

  /**
   * Call `listener` instead of ending the process when it is to end.
   *
   * @returns stops listening.
   */
  onStop(listener: (signal: StopSignal) => void): () => void;
}
