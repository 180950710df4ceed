import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { formatGoDuration, parseGoDuration } from "../../src/flags/go-duration.ts";
import { InvalidValueError } from "../../src/flags/invalid-value-error.ts";

const READ: readonly (readonly [text: string, durationMs: number])[] = [
  ["0", 0],
  ["-0", 0],
  ["0s", 0],
  ["1h", 3_600_000],
  ["1h0m0s", 3_600_000],
  ["1h30m", 5_400_000],
  ["1.5h", 5_400_000],
  [".5s", 500],
  ["1.s", 1_000],
  ["100ms", 100],
  ["-1s", -1_000],
  ["+1s", 1_000],
  ["250us", 0.25],
  ["250\u00b5s", 0.25],
  ["250\u03bcs", 0.25],
  ["1ns", 0.000001],
  ["3s2s", 5_000],
];

const REFUSED: readonly (readonly [text: string, message: string])[] = [
  ["", 'time: invalid duration ""'],
  ["-", 'time: invalid duration "-"'],
  ["abc", 'time: invalid duration "abc"'],
  [".s", 'time: invalid duration ".s"'],
  ["5", 'time: missing unit in duration "5"'],
  ["1h5", 'time: missing unit in duration "1h5"'],
  ["1d", 'time: unknown unit "d" in duration "1d"'],
  ["1constructor", 'time: unknown unit "constructor" in duration "1constructor"'],
  ["1s ", 'time: unknown unit "s " in duration "1s "'],
  ["1h 5m", 'time: unknown unit "h " in duration "1h 5m"'],
  ["1\u00e9", 'time: unknown unit "\\xc3\\xa9" in duration "1\\xc3\\xa9"'],
  ["9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'],
  ["2562048h", 'time: invalid duration "2562048h"'],
];

const WRITTEN: readonly (readonly [durationMs: number, text: string])[] = [
  [0, "0s"],
  [3_600_000, "1h0m0s"],
  [5_400_000, "1h30m0s"],
  [90_000, "1m30s"],
  [1_500, "1.5s"],
  [100, "100ms"],
  [1.5, "1.5ms"],
  [0.0015, "1.5\u00b5s"],
  [0.000001, "1ns"],
  [-1_000, "-1s"],
  [-90_500, "-1m30.5s"],
  [360_000_000, "100h0m0s"],
];

describe("durations", () => {
  for (const [text, durationMs] of READ) {
    it(`reads ${text} as ${durationMs} ms`, () => {
      assert.equal(parseGoDuration(text), durationMs);
    });
  }

  for (const [text, message] of REFUSED) {
    it(`refuses ${JSON.stringify(text)} with Go's words`, () => {
      assert.throws(() => parseGoDuration(text), new InvalidValueError(message));
    });
  }

  for (const [durationMs, text] of WRITTEN) {
    it(`writes ${durationMs} ms as ${text}`, () => {
      assert.equal(formatGoDuration(durationMs), text);
    });
  }

  it("reads back what it wrote, to the nanosecond, for a hundred days each way", () => {
    const hundredDays = 100 * 86_400 * 1e9;
    fc.assert(
      fc.property(fc.integer({ min: -hundredDays, max: hundredDays }), (nanoseconds) => {
        const durationMs = parseGoDuration(`${nanoseconds}ns`);
        assert.equal(parseGoDuration(formatGoDuration(durationMs)), durationMs);
      }),
    );
  });

  it("reads a sum of terms as the sum of what it reads for each", () => {
    const term = fc.tuple(
      fc.integer({ min: 0, max: 999 }),
      fc.constantFrom("h", "m", "s", "ms", "us", "ns"),
    );
    fc.assert(
      fc.property(fc.array(term, { minLength: 1, maxLength: 6 }), (terms) => {
        const texts = terms.map(([count, unit]) => `${count}${unit}`);
        const sum = texts.map(parseGoDuration).reduce((total, each) => total + each, 0);
        assert.ok(Math.abs(parseGoDuration(texts.join("")) - sum) < 0.001);
      }),
    );
  });
});
