import { InvalidValueError } from "./invalid-value-error.ts";

const NANOSECONDS_PER_MS = 1_000_000n;

const NANOSECONDS_PER_UNIT: ReadonlyMap<string, bigint> = new Map([
  ["ns", 1n],
  ["us", 1_000n],
  ["\u00b5s", 1_000n], // micro sign
  ["\u03bcs", 1_000n], // Greek small letter mu, which looks the same
  ["ms", NANOSECONDS_PER_MS],
  ["s", 1_000_000_000n],
  ["m", 60_000_000_000n],
  ["h", 3_600_000_000_000n],
]);

/** Go keeps a duration in 63 bits of nanoseconds and a sign. */
const MAX_NANOSECONDS = (1n << 63n) - 1n;

/**
 * A duration as Go writes it (`1h0m0s`, `1.5h`, `100ms`, `-1s`, `0`), in milliseconds.
 *
 * The result is a fraction where the text is finer than a millisecond.
 *
 * @throws {InvalidValueError} with the message of Go's `time.ParseDuration`.
 */
export function parseGoDuration(text: string): number {
  const invalid = (): InvalidValueError =>
    new InvalidValueError(`time: invalid duration ${quoteDuration(text)}`);

  const isNegative = text.startsWith("-");
  let rest = text.replace(/^[+-]/, "");
  if (rest === "0") return 0;
  if (rest === "") throw invalid();

  let nanoseconds = 0n;
  while (rest !== "") {
    const { whole = "", fraction = "", unit = "" } = TERM.exec(rest)?.groups ?? {};
    if (whole === "" && fraction === "") throw invalid();
    if (unit === "") {
      throw new InvalidValueError(`time: missing unit in duration ${quoteDuration(text)}`);
    }
    const perUnit = NANOSECONDS_PER_UNIT.get(unit);
    if (perUnit === undefined) {
      const unknown = `time: unknown unit ${quoteDuration(unit)} in duration`;
      throw new InvalidValueError(`${unknown} ${quoteDuration(text)}`);
    }
    nanoseconds += BigInt(whole) * perUnit + fractionOf(fraction, perUnit);
    // The smallest duration is one nanosecond further from zero than the largest.
    if (nanoseconds > MAX_NANOSECONDS + (isNegative ? 1n : 0n)) throw invalid();
    rest = rest.replace(TERM, "");
  }
  return millisecondsFrom(isNegative ? -nanoseconds : nanoseconds);
}

/** One number and its unit. Every part may be missing; the parser says which one was needed. */
const TERM = /^(?<whole>[0-9]*)(?:\.(?<fraction>[0-9]*))?(?<unit>[^0-9.]*)/;

function fractionOf(digits: string, perUnit: bigint): bigint {
  return digits === "" ? 0n : (BigInt(digits) * perUnit) / 10n ** BigInt(digits.length);
}

function millisecondsFrom(nanoseconds: bigint): number {
  const whole = nanoseconds / NANOSECONDS_PER_MS;
  return Number(whole) + Number(nanoseconds % NANOSECONDS_PER_MS) / Number(NANOSECONDS_PER_MS);
}

/**
 * Milliseconds as Go prints a duration: `1h0m0s`, `1.5s`, `100ms`, `-1s`, `0s`.
 *
 * The opposite of {@link parseGoDuration}, to the nanosecond for anything below a hundred days.
 */
export function formatGoDuration(durationMs: number): string {
  const wholeMs = Math.trunc(durationMs);
  const nanoseconds =
    BigInt(wholeMs) * NANOSECONDS_PER_MS +
    BigInt(Math.round((durationMs - wholeMs) * Number(NANOSECONDS_PER_MS)));
  if (nanoseconds === 0n) return "0s";

  const sign = nanoseconds < 0n ? "-" : "";
  const size = nanoseconds < 0n ? -nanoseconds : nanoseconds;
  if (size < 1_000n) return `${sign}${size}ns`;
  if (size < 1_000_000n) return `${sign}${decimal(size, 3)}\u00b5s`;
  if (size < 1_000_000_000n) return `${sign}${decimal(size, 6)}ms`;

  const minutes = size / 60_000_000_000n;
  const seconds = `${decimal(size % 60_000_000_000n, 9)}s`;
  if (minutes === 0n) return sign + seconds;
  if (minutes < 60n) return `${sign}${minutes}m${seconds}`;
  return `${sign}${minutes / 60n}h${minutes % 60n}m${seconds}`;
}

/** `value` divided by ten to the `digits`, without trailing zeros. */
function decimal(value: bigint, digits: number): string {
  const padded = value.toString().padStart(digits + 1, "0");
  const fraction = padded.slice(-digits).replace(/0+$/, "");
  return padded.slice(0, -digits) + (fraction === "" ? "" : `.${fraction}`);
}

/** As the time package quotes: unlike `%q`, whatever is not plain ASCII becomes its UTF-8 bytes. */
function quoteDuration(text: string): string {
  const inner = Array.from(text, (char) => {
    if (/^[\x20-\x7f]$/.test(char)) return char.replace(/["\\]/, "\\$&");
    return Array.from(Buffer.from(char), (byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join(
      "",
    );
  });
  return `"${inner.join("")}"`;
}
