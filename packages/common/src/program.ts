import type { FileExists } from "./file-exists.ts";
import { renderHelp } from "./flags/flag-help.ts";
import type { HelpPage } from "./flags/flag-help.ts";
import type { FlagTable, ParsedFlags } from "./flags/flag-table.ts";
import { boolType } from "./flags/flag-type.ts";
import { parseFlags } from "./flags/parse-flags.ts";
import { UsageError } from "./flags/usage-error.ts";
import type { Random } from "./random.ts";

/** A command-line program: what it is called, what it can be told, and what that means to it. */
export interface Program<Table extends FlagTable, Options> extends HelpPage {
  readonly version: string;
  /** The program's own flags; `--help` and `--version` are added to them. */
  readonly flags: Table;

  /** @throws {UsageError} with every problem, if the flags do not make a usable configuration. */
  resolve(flags: ParsedFlags<Table>, ports: OptionPorts): Options;
}

/** What turning flags into options needs from outside. */
export interface OptionPorts {
  readonly random: Random;
  readonly fileExists: FileExists;
  /** Bytes of memory that the process may use. */
  memoryLimitBytes(): number;
}

/** What a program gets from the process it runs in. */
export interface ProgramHost extends OptionPorts {
  /** Arguments only, without the interpreter and the script. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  stdout(text: string): void;
  stderr(text: string): void;
}

const PROGRAM_FLAGS = {
  help: {
    type: boolType,
    default: false,
    shorthand: "h",
    group: "Other",
    help: "Print this text and exit.",
  },
  version: {
    type: boolType,
    default: false,
    group: "Other",
    help: "Print the program's name and version and exit.",
  },
} as const satisfies FlagTable;

/**
 * Read the command line, then `run` the program with the options it describes.
 *
 * Help and version go to standard output. A mistake, and whatever `run` fails with, goes to standard
 * error in upstream's form: a line `Error: ...` for each problem, a pointer to the usage, and the
 * first problem again as the last line, where the tail of a pod's log shows it.
 *
 * @param run - Resolves with the exit code once the program has done its work.
 * @returns The exit code: 1 if the command line is unusable or `run` failed.
 */
export async function startProgram<Table extends FlagTable, Options>(
  program: Program<Table, Options>,
  host: ProgramHost,
  run: (options: Options) => Promise<number>,
): Promise<number> {
  try {
    const flags = { ...program.flags, ...PROGRAM_FLAGS };
    const parsed = await parseFlags<Table & typeof PROGRAM_FLAGS>(flags, {
      argv: host.argv,
      env: host.env,
      onDeprecated: (line) => {
        host.stderr(`${line}\n`);
      },
    });
    if (parsed.values.help) {
      host.stdout(await renderHelp(flags, program));
      return 0;
    }
    if (parsed.values.version) {
      host.stdout(`${program.name} ${program.version}\n`);
      return 0;
    }
    return await run(program.resolve(parsed, host));
  } catch (error) {
    const problems = error instanceof UsageError ? error.problems : [messageOf(error)];
    host.stderr(failureReport(program.name, problems));
    return 1;
  }
}

function failureReport(name: string, problems: readonly string[]): string {
  const lines = [
    ...problems.map((problem) => `Error: ${problem}`),
    "Usage:",
    `  ${name} [flags]`,
    "",
    `Run "${name} --help" for all flags.`,
    "",
    `error: ${problems[0] ?? ""}`,
  ];
  return `${lines.join("\n")}\n`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
