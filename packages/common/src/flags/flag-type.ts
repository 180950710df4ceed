import { formatCsvRecord, parseCsvRecord } from "./csv-record.ts";
import { formatGoDuration, parseGoDuration } from "./go-duration.ts";
import { INT64, parseGoBool, parseGoFloat32, parseGoInteger } from "./go-number.ts";
import { parseLabelSelector } from "./label-selector.ts";
import type { LabelSelector } from "./label-selector.ts";

/** How the text of a flag becomes its value, and back. */
export interface FlagType<Value> {
  /** The name upstream's help gives this type; conformance tests compare it. */
  readonly name: string;

  /** What help shows in place of a value, e.g. `duration`; empty for a flag that needs none. */
  readonly placeholder: string;

  /**
   * The text that `--flag` alone stands for. A flag that has one never takes the next argument:
   * `--flag false` is the flag and a positional argument.
   */
  readonly bareText?: string;

  /** @throws {InvalidValueError} saying what is wrong with `text`, as upstream would. */
  parse(text: string): Value;

  /** The value as Go prints it. */
  format(value: Value): string;

  /** What a second occurrence makes of the first. Without it, the last occurrence wins. */
  append?(earlier: Value, later: Value): Value;
}

export const boolType: FlagType<boolean> = {
  name: "bool",
  placeholder: "",
  bareText: "true",
  parse: parseGoBool,
  format: String,
};

/** A whole number; may be written as any Go literal, e.g. `0x1f90`. */
export const intType: FlagType<number> = {
  name: "int",
  placeholder: "number",
  parse: (text) => parseGoInteger(text, INT64),
  format: String,
};

export const float32Type: FlagType<number> = {
  name: "float32",
  placeholder: "number",
  parse: parseGoFloat32,
  format: String,
};

/** Held in milliseconds, written as Go does: `1h0m0s`. */
export const durationType: FlagType<number> = {
  name: "duration",
  placeholder: "duration",
  parse: parseGoDuration,
  format: formatGoDuration,
};

export const stringType: FlagType<string> = {
  name: "string",
  placeholder: "text",
  parse: (text) => text,
  format: (value) => value,
};

/**
 * Texts, separated by commas or given by repeating the flag. The first occurrence replaces the
 * default, later ones add to it.
 */
export const stringListType: FlagType<readonly string[]> = {
  name: "strings",
  placeholder: "list",
  parse: parseCsvRecord,
  format: (value) => `[${formatCsvRecord(value)}]`,
  append: (earlier, later) => [...earlier, ...later],
};

/** A Kubernetes label selector; no text selects everything. */
export const labelSelectorType: FlagType<LabelSelector> = {
  name: "string",
  placeholder: "selector",
  parse: parseLabelSelector,
  format: String,
};
