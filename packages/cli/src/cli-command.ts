import type { Argv } from "yargs";
import type { CliHost } from "./cli-host.ts";

/** A subcommand of `reachback`. */
export interface CliCommand {
  /**
   * Declare the command to the parser.
   *
   * @param run - To be called from yargs' handler with what the command does. Its exit code becomes
   * the program's; an error it throws is printed, and makes it 1.
   */
  declare(parser: Argv, host: CliHost, run: RunCommand): Argv;
}

export type RunCommand = (work: () => Promise<number>) => Promise<void>;
