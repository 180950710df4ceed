import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  DECIMAL_INT32,
  INT64,
  parseGoBool,
  parseGoFloat32,
  parseGoInteger,
} from "../../src/flags/go-number.ts";
import { InvalidValueError } from "../../src/flags/invalid-value-error.ts";

function refusal(parser: string, text: string, fault: string): InvalidValueError {
  return new InvalidValueError(`strconv.${parser}: parsing ${JSON.stringify(text)}: ${fault}`);
}

describe("booleans", () => {
  for (const text of ["1", "t", "T", "true", "TRUE", "True"]) {
    it(`reads ${text} as yes`, () => {
      assert.equal(parseGoBool(text), true);
    });
  }
  for (const text of ["0", "f", "F", "false", "FALSE", "False"]) {
    it(`reads ${text} as no`, () => {
      assert.equal(parseGoBool(text), false);
    });
  }
  for (const text of ["", "maybe", "yes", "on", "tRUE", " true"]) {
    it(`refuses ${JSON.stringify(text)}`, () => {
      assert.throws(() => parseGoBool(text), refusal("ParseBool", text, "invalid syntax"));
    });
  }
});

describe("whole numbers", () => {
  const read: readonly (readonly [string, number])[] = [
    ["0", 0],
    ["-0", 0],
    ["8091", 8091],
    ["+5", 5],
    ["-1", -1],
    ["0x1f90", 8080],
    ["0X1F90", 8080],
    ["0b101", 5],
    ["0o17", 15],
    ["017", 15],
    ["0_7", 7],
    ["1_000", 1000],
    ["0x_ff", 255],
    ["9007199254740991", Number.MAX_SAFE_INTEGER],
  ];
  for (const [text, value] of read) {
    it(`reads ${text} as ${value}`, () => {
      assert.ok(parseGoInteger(text, INT64) === value);
    });
  }

  const misspelt = [
    "",
    "abc",
    "1.5",
    "1e3",
    " 1",
    "08",
    "0x",
    "0b2",
    "_1",
    "1_",
    "1__0",
    "--1",
    "٣",
  ];
  for (const text of misspelt) {
    it(`refuses ${JSON.stringify(text)} for its syntax`, () => {
      const expected = refusal("ParseInt", text, "invalid syntax");
      assert.throws(() => parseGoInteger(text, INT64), expected);
    });
  }

  it("refuses a port that was written as a Go literal where only decimals are taken", () => {
    const expected = refusal("ParseInt", "0x10", "invalid syntax");
    assert.throws(() => parseGoInteger("0x10", DECIMAL_INT32), expected);
  });

  const tooLarge = ["99999999999999999999", "-99999999999999999999", "9007199254740993"];
  for (const text of tooLarge) {
    it(`refuses ${text} for its size`, () => {
      const expected = refusal("ParseInt", text, "value out of range");
      assert.throws(() => parseGoInteger(text, INT64), expected);
    });
  }

  it("reads every safe integer back from its decimal text", () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), (value) => {
        assert.equal(parseGoInteger(String(value), INT64), value);
      }),
    );
  });
});

describe("fractions", () => {
  const read: readonly (readonly [string, number])[] = [
    ["0", 0],
    ["5", 5],
    ["2.5", 2.5],
    [".5", 0.5],
    ["5.", 5],
    ["-1e3", -1000],
    ["1_0.2_5e1", 102.5],
    ["0x1p-2", 0.25],
    ["0x1.8p1", 3],
    ["-Inf", -Infinity],
    ["infinity", Infinity],
    ["0.1", Math.fround(0.1)],
  ];
  for (const [text, value] of read) {
    it(`reads ${text} as ${value}`, () => {
      assert.equal(parseGoFloat32(text), value);
    });
  }

  it("reads NaN", () => {
    assert.ok(Number.isNaN(parseGoFloat32("nan")));
  });

  for (const text of ["", "x", "1e", ".", "0x1", "1__0", "-nan", "1,5", "0x.p1", "constructor"]) {
    it(`refuses ${JSON.stringify(text)} for its syntax`, () => {
      assert.throws(() => parseGoFloat32(text), refusal("ParseFloat", text, "invalid syntax"));
    });
  }

  it("refuses what a float32 cannot hold", () => {
    assert.throws(
      () => parseGoFloat32("1e39"),
      refusal("ParseFloat", "1e39", "value out of range"),
    );
  });
});
