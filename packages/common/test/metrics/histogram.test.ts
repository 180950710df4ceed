import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Histogram, LabelledHistogram } from "../../src/metrics/histogram.ts";

function counts(histogram: Histogram): readonly number[] {
  return histogram.series()[0]?.value.cumulativeCounts ?? [];
}

describe("Histogram", () => {
  it("is absent until it is used", () => {
    assert.deepEqual(new Histogram([1]).series(), []);
  });

  it("counts a value at a bound below it", () => {
    const histogram = new Histogram([1, 2]);
    for (const value of [0, 1, 1.000001, 2, 2.1]) histogram.observe(value);
    assert.deepEqual(counts(histogram), [2, 4]);
    assert.equal(histogram.series()[0]?.value.count, 5);
  });

  it("puts what is not a number above all bounds", () => {
    const histogram = new Histogram([1]);
    histogram.observe(NaN);
    assert.deepEqual(counts(histogram), [0]);
    assert.equal(histogram.series()[0]?.value.count, 1);
  });

  it("keeps one for each value of its label", () => {
    const histogram = new LabelledHistogram("code", [1]);
    histogram.observe("200", 0.5);
    histogram.observe("404", 2);
    histogram.observe("200", 2);
    assert.deepEqual(
      [...histogram.series()].map(({ labels, value }) => [labels["code"], value.count]),
      [
        ["200", 2],
        ["404", 1],
      ],
    );
  });
});
