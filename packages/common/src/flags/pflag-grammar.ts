import type { FlagTable } from "./flag-table.ts";
import { goQuoteChar } from "./go-quote.ts";
import { UsageError } from "./usage-error.ts";

/** A command line in which every argument has the form `--name=text`. */
export interface NormalisedArguments {
  readonly arguments: readonly string[];
  /** What stopped the reading, if it did not get to the end: nothing behind it was looked at. */
  readonly error: UsageError | undefined;
}

/**
 * Rewrite a command line from the grammar of Go's pflag into one spelling.
 *
 * pflag has its own mind where getopt-like parsers differ: a flag that needs a value takes the next
 * argument whatever it looks like; a boolean never takes it; letters may be run together (`-hv5`);
 * there are no abbreviations and no `--no-x`. Positional arguments, and all after `--`, are dropped.
 */
export function normaliseArguments(argv: readonly string[], table: FlagTable): NormalisedArguments {
  const grammar = new PflagGrammar(argv, table);
  try {
    grammar.readAll();
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { arguments: grammar.normalised, error };
  }
  return { arguments: grammar.normalised, error: undefined };
}

class PflagGrammar {
  readonly normalised: string[] = [];
  readonly #argv: readonly string[];
  readonly #flags: ReadonlyMap<string, { readonly bareText: string | undefined }>;
  readonly #nameByLetter: ReadonlyMap<string, string>;
  #next = 0;

  constructor(argv: readonly string[], table: FlagTable) {
    const entries = Object.entries(table);
    this.#argv = argv;
    this.#flags = new Map(entries.map(([name, { type }]) => [name, { bareText: type.bareText }]));
    this.#nameByLetter = new Map(
      entries.flatMap(([name, { shorthand }]) =>
        shorthand === undefined ? [] : [[shorthand, name]],
      ),
    );
  }

  readAll(): void {
    for (let argument = this.#take(); argument !== undefined; argument = this.#take()) {
      if (argument === "--") return;
      if (argument.startsWith("--")) this.#readLong(argument);
      else if (argument.startsWith("-") && argument !== "-") this.#readLetters(argument.slice(1));
    }
  }

  #readLong(argument: string): void {
    const [, name = "", text] = /^--([^=]*)(?:=([^]*))?$/.exec(argument) ?? [];
    if (name === "" || name.startsWith("-")) {
      throw new UsageError([`bad flag syntax: ${argument}`]);
    }
    const flag = this.#flags.get(name);
    if (flag === undefined) throw new UsageError([`unknown flag: --${name}`]);

    const value = text ?? flag.bareText ?? this.#take();
    if (value === undefined) throw new UsageError([`flag needs an argument: --${name}`]);
    this.normalised.push(`--${name}=${value}`);
  }

  #readLetters(letters: string): void {
    for (let rest = letters; rest !== "";) {
      const letter = rest.charAt(0);
      const name = this.#nameByLetter.get(letter);
      if (name === undefined) {
        // pflag looks at bytes; of a character that needs several it names the first.
        const firstByte = String.fromCharCode(Buffer.from(rest)[0] ?? 0);
        throw new UsageError([`unknown shorthand flag: ${goQuoteChar(firstByte)} in -${rest}`]);
      }
      const bareText = this.#flags.get(name)?.bareText;
      let value: string | undefined;
      if (/^.=[^]/.test(rest)) {
        value = rest.slice(2);
        rest = "";
      } else if (bareText !== undefined) {
        value = bareText;
        rest = rest.slice(1);
      } else {
        value = rest.length > 1 ? rest.slice(1) : this.#take();
        if (value === undefined) {
          throw new UsageError([`flag needs an argument: ${goQuoteChar(letter)} in -${rest}`]);
        }
        rest = "";
      }
      this.normalised.push(`--${name}=${value}`);
    }
  }

  #take(): string | undefined {
    const argument = this.#argv[this.#next];
    this.#next += 1;
    return argument;
  }
}
