import type { FlagOrigin, FlagSpec, FlagTable, ParsedFlags } from "./flag-table.ts";
import { goQuote } from "./go-quote.ts";
import { InvalidValueError } from "./invalid-value-error.ts";
import { normaliseArguments } from "./pflag-grammar.ts";
import { UsageError } from "./usage-error.ts";
import { PLAIN_PARSER } from "./yargs-settings.ts";

export interface FlagInput {
  /** Arguments only, without the interpreter and the script. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Called with the line to print for each use of a deprecated flag. */
  onDeprecated(line: string): void;
}

/**
 * Read a command line as upstream's programs do.
 *
 * Stops at the first mistake from the left, as they do, so that an operator who knows their message
 * gets the same one.
 *
 * @throws {UsageError} for an unknown flag, a missing or a bad value.
 */
export async function parseFlags<Table extends FlagTable>(
  table: Table,
  input: FlagInput,
): Promise<ParsedFlags<Table>> {
  const normalised = normaliseArguments(input.argv, table);
  const parsed = new FlagState(table);
  for (const { name, text } of await collectOccurrences(table, normalised.arguments)) {
    parsed.set(name, text);
    const advice = table[name]?.deprecated;
    if (advice !== undefined) input.onDeprecated(`Flag --${name} has been deprecated, ${advice}`);
  }
  if (normalised.error !== undefined) throw normalised.error;
  parsed.fillFromEnvironment(input.env);
  return parsed.result() as ParsedFlags<Table>;
}

interface FlagOccurrence {
  readonly name: string;
  readonly text: string;
}

/**
 * The flags that were given, with their texts, from left to right.
 *
 * yargs does the reading. Left alone it would change texts (it strips quotes), lose an empty one,
 * and forget the order across flags, on which "last one wins" and "first mistake" depend; so each
 * text travels behind its position: `--mode=3:grpc`.
 */
async function collectOccurrences(
  table: FlagTable,
  args: readonly string[],
): Promise<FlagOccurrence[]> {
  // Loaded here and not above: who uses this package for its codec need not wait 50 ms for yargs.
  const { default: yargs } = await import("yargs");
  // Its own help and version go first: dropping them would forget our flags of those names.
  const parser = yargs(args.map((argument, index) => argument.replace("=", `=${index}:`)))
    .help(false)
    .version(false)
    .parserConfiguration(PLAIN_PARSER)
    .detectLocale(false)
    .exitProcess(false)
    .fail(false)
    .array(Object.keys(table))
    .string(Object.keys(table));

  const occurrences: FlagOccurrence[] = [];
  for (const [name, texts] of Object.entries(parser.parseSync())) {
    if (!Object.hasOwn(table, name) || texts === undefined) continue;
    for (const tagged of texts as readonly string[]) {
      const colon = tagged.indexOf(":");
      occurrences[Number(tagged.slice(0, colon))] = { name, text: tagged.slice(colon + 1) };
    }
  }
  return occurrences;
}

/** The values while the command line is being read. */
class FlagState {
  readonly #table: FlagTable;
  readonly #values = new Map<string, unknown>();
  readonly #origins = new Map<string, FlagOrigin>();

  constructor(table: FlagTable) {
    this.#table = table;
    for (const [name, spec] of Object.entries(table)) {
      this.#values.set(name, spec.default);
      this.#origins.set(name, "default");
    }
  }

  /** Give a flag a text. @throws {UsageError} if it is not of the flag's type. */
  set(name: string, text: string): void {
    const spec = this.#table[name];
    if (spec === undefined) throw new Error(`no flag --${name} in the table`);
    const target = spec.setsFlag ?? name;
    const label = spec.shorthand === undefined ? `--${name}` : `-${spec.shorthand}, --${name}`;
    const value = parseText(spec, text, `for ${goQuote(label)} flag`);
    const isRepeated = this.#origins.get(target) === "flag";
    this.#values.set(
      target,
      isRepeated && spec.type.append ? spec.type.append(this.#values.get(target), value) : value,
    );
    this.#origins.set(target, "flag");
  }

  fillFromEnvironment(env: FlagInput["env"]): void {
    for (const [name, spec] of Object.entries(this.#table)) {
      const text = spec.env === undefined ? undefined : env[spec.env];
      if (text === undefined || text === "" || this.#origins.get(name) === "flag") continue;
      this.#values.set(name, parseText(spec, text, `in environment variable ${spec.env ?? ""}`));
      this.#origins.set(name, "env");
    }
  }

  /** Values and origins by name; a flag that sets another one reports that other's. */
  result(): { readonly values: object; readonly origins: object } {
    for (const [name, { setsFlag }] of Object.entries(this.#table)) {
      if (setsFlag === undefined) continue;
      this.#values.set(name, this.#values.get(setsFlag));
      this.#origins.set(name, this.#origins.get(setsFlag) ?? "default");
    }
    return Object.freeze({
      values: Object.freeze(Object.fromEntries(this.#values)),
      origins: Object.freeze(Object.fromEntries(this.#origins)),
    });
  }
}

function parseText(spec: FlagSpec<unknown>, text: string, where: string): unknown {
  try {
    return spec.type.parse(text);
  } catch (error) {
    if (!(error instanceof InvalidValueError)) throw error;
    throw new UsageError([`invalid argument ${goQuote(text)} ${where}: ${error.message}`]);
  }
}
