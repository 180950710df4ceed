import { goQuote } from "./go-quote.ts";
import { InvalidValueError } from "./invalid-value-error.ts";

/** How `strconv` in Go names the two ways a number can be wrong. */
export type NumberFault = "invalid syntax" | "value out of range";

/** Either the number or what is wrong with the text; the caller words the error. */
export type NumberReading<Value> =
  { readonly value: Value; readonly fault?: undefined } | { readonly fault: NumberFault };

const TRUE_WORDS = new Set(["1", "t", "T", "TRUE", "true", "True"]);
const FALSE_WORDS = new Set(["0", "f", "F", "FALSE", "false", "False"]);

/** The boolean that Go's `ParseBool` reads, or `undefined` if it would refuse the text. */
export function readGoBool(text: string): boolean | undefined {
  if (TRUE_WORDS.has(text)) return true;
  return FALSE_WORDS.has(text) ? false : undefined;
}

/** @throws {InvalidValueError} with the message of Go's `strconv.ParseBool`. */
export function parseGoBool(text: string): boolean {
  const value = readGoBool(text);
  if (value === undefined) throw strconvError("ParseBool", text, "invalid syntax");
  return value;
}

export interface IntegerRules {
  /** 10, or 0 for "as a Go literal": `0x1f`, `0o17`, `017`, `0b1` and `1_000` are numbers too. */
  readonly base: 0 | 10;
  readonly min: bigint;
  readonly max: bigint;
}

export const INT64: IntegerRules = { base: 0, min: -(1n << 63n), max: (1n << 63n) - 1n };
export const UINT64: IntegerRules = { base: 0, min: 0n, max: (1n << 64n) - 1n };
export const DECIMAL_INT32: IntegerRules = { base: 10, min: -(1n << 31n), max: (1n << 31n) - 1n };

const DECIMAL = /^[0-9]+$/;

/** The literal forms of Go; an underscore may stand before a digit that follows another or a prefix. */
const LITERALS: readonly { readonly form: RegExp; readonly bigintPrefix: string }[] = [
  { form: /^([1-9](?:_?[0-9])*)$/, bigintPrefix: "" },
  { form: /^0[xX]((?:_?[0-9a-fA-F])+)$/, bigintPrefix: "0x" },
  { form: /^0[bB]((?:_?[01])+)$/, bigintPrefix: "0b" },
  { form: /^0[oO]((?:_?[0-7])+)$/, bigintPrefix: "0o" },
  // A leading zero alone is the old octal prefix; zero is that prefix with no digit after it.
  { form: /^(0(?:_?[0-7])*)$/, bigintPrefix: "0o" },
];

/**
 * A whole number by Go's rules.
 *
 * What fits Go's type but not a JavaScript number exactly counts as out of range: nothing in these
 * programs has 2^53 of anything, and a rounded value would be worse than an error.
 */
export function readGoInteger(text: string, rules: IntegerRules): NumberReading<number> {
  const signed = rules.min < 0n && /^[+-]/.test(text);
  const magnitude = readMagnitude(signed ? text.slice(1) : text, rules.base);
  if (magnitude === undefined) return { fault: "invalid syntax" };

  const value = signed && text.startsWith("-") ? -magnitude : magnitude;
  const isExact = Number.isSafeInteger(Number(value));
  if (value < rules.min || value > rules.max || !isExact) return { fault: "value out of range" };
  return { value: Number(value) };
}

function readMagnitude(digits: string, base: 0 | 10): bigint | undefined {
  if (base === 10) return DECIMAL.test(digits) ? BigInt(digits) : undefined;
  for (const { form, bigintPrefix } of LITERALS) {
    const matched = form.exec(digits)?.[1];
    if (matched !== undefined) return BigInt(bigintPrefix + matched.replaceAll("_", ""));
  }
  return undefined;
}

/** @throws {InvalidValueError} with the message of Go's `strconv.ParseInt`. */
export function parseGoInteger(text: string, rules: IntegerRules): number {
  const reading = readGoInteger(text, rules);
  if (reading.fault !== undefined) throw strconvError("ParseInt", text, reading.fault);
  return reading.value;
}

const DECIMAL_FLOAT =
  /^[+-]?(?:[0-9](?:_?[0-9])*\.?(?:[0-9](?:_?[0-9])*)?|\.[0-9](?:_?[0-9])*)(?:[eE][+-]?[0-9](?:_?[0-9])*)?$/;
const HEX_FLOAT =
  /^(?<sign>[+-]?)0[xX](?<whole>(?:_?[0-9a-fA-F])*)\.?(?<part>(?:[0-9a-fA-F](?:_?[0-9a-fA-F])*)?)[pP](?<exponent>[+-]?[0-9]+)$/;
const SPECIAL_FLOATS: ReadonlyMap<string, number> = new Map([
  ["inf", Infinity],
  ["infinity", Infinity],
  ["nan", NaN],
]);

/**
 * A `float32` by Go's rules, rounded to what a `float32` can hold.
 *
 * @throws {InvalidValueError} with the message of Go's `strconv.ParseFloat`.
 */
export function parseGoFloat32(text: string): number {
  const special = SPECIAL_FLOATS.get(text.replace(/^[+-](?=i)/i, "").toLowerCase());
  if (special !== undefined) return text.startsWith("-") ? -special : special;

  const value = readFiniteFloat(text);
  if (value === undefined) throw strconvError("ParseFloat", text, "invalid syntax");
  const rounded = Math.fround(value);
  if (!Number.isFinite(rounded)) throw strconvError("ParseFloat", text, "value out of range");
  return rounded;
}

function readFiniteFloat(text: string): number | undefined {
  if (DECIMAL_FLOAT.test(text)) return Number(text.replaceAll("_", ""));
  const hex = HEX_FLOAT.exec(text)?.groups;
  if (hex === undefined) return undefined;
  const { sign = "", whole = "", part = "", exponent = "0" } = hex;
  const digits = (whole + part).replaceAll("_", "");
  if (digits === "") return undefined;
  const scale = Number(exponent) - 4 * part.replaceAll("_", "").length;
  const magnitude = Number(BigInt(`0x${digits}`)) * 2 ** scale;
  return sign === "-" ? -magnitude : magnitude;
}

function strconvError(parser: string, text: string, fault: NumberFault): InvalidValueError {
  return new InvalidValueError(`strconv.${parser}: parsing ${goQuote(text)}: ${fault}`);
}
