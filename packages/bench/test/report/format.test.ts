import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  formatElapsed,
  formatNumber,
  formatQuantity,
  formatRatio,
} from "../../src/report/format.ts";

describe("formatNumber", () => {
  const expected: readonly [number | undefined, string][] = [
    [0, "0"],
    [0.123, "0.12"],
    [2.5, "2.50"],
    [45.67, "45.7"],
    [456.7, "457"],
    [12_345.6, "12,346"],
    [12, "12"],
    [-3.21, "-3.21"],
    [undefined, "–"],
    [NaN, "–"],
  ];
  for (const [value, text] of expected) {
    it(`writes ${value ?? "nothing"} as ${text}`, () => {
      assert.equal(formatNumber(value), text);
    });
  }
});

describe("formatRatio", () => {
  it("keeps three digits", () => {
    assert.equal(formatRatio(1), "1.00x");
    assert.equal(formatRatio(0.8349), "0.83x");
    assert.equal(formatRatio(12.345), "12.3x");
    assert.equal(formatRatio(483.2), "483x");
    assert.equal(formatRatio(undefined), "–");
  });
});

describe("formatQuantity", () => {
  it("adds the unit as people write it", () => {
    assert.equal(formatQuantity(621.03, "MiB/s"), "621 MiB/s");
    assert.equal(formatQuantity(1234, "/s"), "1,234/s");
    assert.equal(formatQuantity(95, "%"), "95%");
    assert.equal(formatQuantity(3, ""), "3");
    assert.equal(formatQuantity(undefined, "ms"), "–");
  });
});

describe("formatElapsed", () => {
  it("counts minutes and seconds", () => {
    assert.equal(formatElapsed(0), "0:00");
    assert.equal(formatElapsed(61_900), "1:01");
    assert.equal(formatElapsed(3_600_000), "60:00");
  });
});
