import type { FlagSpec, FlagTable } from "./flag-table.ts";
import { goQuote } from "./go-quote.ts";
import { PLAIN_PARSER } from "./yargs-settings.ts";

/** What a program's help says besides its flags. */
export interface HelpPage {
  /** The command, as the operator types it. */
  readonly name: string;
  /** What the program is for, in a sentence or two. */
  readonly summary: string;
  /** Command lines to copy; may have several lines, and a comment that says what they do. */
  readonly examples: string;
}

/** Fixed, so that help reads the same in a terminal, a pipe and a pod's log. */
const WIDTH = 100;

/** Texts of defaults that say nothing: no, none, zero. */
const SILENT_DEFAULTS = new Set(["", "false", "0", "0s", "[]"]);

/** The text of `--help`: usage, summary, flags by group, examples. Hidden flags are left out. */
export async function renderHelp(table: FlagTable, page: HelpPage): Promise<string> {
  const { default: yargs } = await import("yargs");
  const help = yargs([])
    .parserConfiguration(PLAIN_PARSER)
    .detectLocale(false)
    .exitProcess(false)
    .help(false)
    .version(false)
    .scriptName(page.name)
    .usage(`Usage: $0 [flags]\n\n${page.summary}`)
    .wrap(WIDTH);
  for (const [name, spec] of Object.entries(table)) {
    if (spec.isHidden === true || spec.deprecated !== undefined) continue;
    // This parser only draws help, so a flag's name may carry its placeholder along.
    const placeholder = spec.placeholder ?? spec.type.placeholder;
    help.option(placeholder === "" ? name : `${name} <${placeholder}>`, {
      describe: `${spec.help}${defaultNote(spec)}`,
      group: `${spec.group}:`,
      ...(spec.shorthand === undefined ? {} : { alias: spec.shorthand }),
    });
  }

  let text = "";
  help.showHelp((rendered) => {
    text = rendered;
  });
  // Not by yargs, which would wrap a command line and take its indentation.
  return `${text}\n\nExamples:\n\n${page.examples}\n`;
}

function defaultNote(spec: FlagSpec<unknown>): string {
  if (spec.defaultText !== undefined) return ` (default: ${spec.defaultText})`;
  const text = spec.type.format(spec.default);
  if (SILENT_DEFAULTS.has(text)) return "";
  return ` (default ${spec.type.name === "string" ? goQuote(text) : text})`;
}
