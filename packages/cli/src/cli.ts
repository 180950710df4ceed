import { packageVersion } from "@reachback/common";
import yargs from "yargs";
import type { CliHost } from "./cli-host.ts";
import type { CliCommand } from "./cli-command.ts";
import { certsCommand } from "./commands/certs.ts";
import { demoCommand } from "./commands/demo.ts";
import { demoEndpointCommand } from "./commands/demo-endpoint.ts";

const COMMANDS: readonly CliCommand[] = [certsCommand, demoCommand, demoEndpointCommand];

/** Wide enough for a flag and its text, and the same in a terminal and in a pipe. */
const HELP_WIDTH = 100;

/**
 * Run `reachback` with the host's arguments.
 *
 * @returns The exit code: the subcommand's own, or 1 if it failed or the arguments make no sense.
 */
export async function runCli(host: CliHost): Promise<number> {
  let exitCode = 0;
  const parser = yargs()
    .scriptName("reachback")
    .usage(
      "$0 <command>\n\nReach nodes that no route leads to, over tunnels they dialed themselves.",
    )
    .version(packageVersion(import.meta.url))
    .alias("help", "h")
    .wrap(HELP_WIDTH)
    .detectLocale(false)
    .parserConfiguration({
      "boolean-negation": false,
      "camel-case-expansion": false,
      "greedy-arrays": false,
    })
    .strict()
    .demandCommand(1, 1, "name a command", "name one command")
    .exitProcess(false)
    .fail((problem, error: unknown) => {
      throw error instanceof Error ? error : new UsageProblem(problem);
    });
  for (const command of COMMANDS) {
    command.declare(parser, host, async (work) => {
      exitCode = await work();
    });
  }

  try {
    await parser.parseAsync([...host.argv], {}, (_error, _arguments, output) => {
      // Help and version; yargs' own reports of errors are never made, because of `fail`.
      if (output !== "") host.stdout(`${output}\n`);
    });
    return exitCode;
  } catch (error) {
    host.stderr(`Error: ${error instanceof Error ? error.message : String(error)}\n`);
    if (error instanceof UsageProblem) host.stderr('Run "reachback --help" for usage.\n');
    return 1;
  }
}

/** The arguments do not fit the command; yargs says how. */
class UsageProblem extends Error {}
