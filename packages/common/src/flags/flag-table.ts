import type { FlagType } from "./flag-type.ts";

/** One flag of a program, as its operator knows it. */
export interface FlagSpec<Value> {
  readonly type: FlagType<Value>;
  readonly default: Value;

  /** What the flag does and when to touch it, in a sentence or two. */
  readonly help: string;

  /** Heading under which help lists the flag. */
  readonly group: string;

  /** The one letter of the short form. */
  readonly shorthand?: string;

  /** Shown instead of the type's placeholder, e.g. `port`. */
  readonly placeholder?: string;

  /** Shown instead of the default, where that is made at start. */
  readonly defaultText?: string;

  /** Environment variable that is used, if it is set and not empty, when the flag is not given. */
  readonly env?: string;

  /** The flag parses but help does not mention it. */
  readonly isHidden?: true;

  /** What to do instead; printed when the flag is given. Help does not mention such a flag. */
  readonly deprecated?: string;

  /** The flag whose value this one sets: another spelling of it. Of the two, the last one wins. */
  readonly setsFlag?: string;
}

/** All flags of a program, by name without dashes. Help lists them, and their groups, in this order. */
export type FlagTable = Readonly<Record<string, FlagSpec<unknown>>>;

/** Where a flag's value came from. */
export type FlagOrigin = "default" | "env" | "flag";

export type FlagValue<Spec> = Spec extends { readonly type: FlagType<infer Value> } ? Value : never;

/** What a command line, together with the environment, makes of a table. */
export interface ParsedFlags<Table extends FlagTable> {
  readonly values: { readonly [Name in keyof Table]: FlagValue<Table[Name]> };
  readonly origins: { readonly [Name in keyof Table]: FlagOrigin };
}
