import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { median, percentile, summarize } from "../src/statistics.ts";

describe("median", () => {
  it("is the middle value, whatever the order", () => {
    assert.equal(median([9, 1, 5]), 5);
  });

  it("is the mean of the two in the middle", () => {
    assert.equal(median([4, 1, 100, 2]), 3);
  });

  it("is not a number without values", () => {
    assert.ok(Number.isNaN(median([])));
  });
});

describe("percentile", () => {
  const hundred = Array.from({ length: 100 }, (_, index) => index + 1);

  it("takes the nearest rank", () => {
    assert.equal(percentile(hundred, 0.5), 50);
    assert.equal(percentile(hundred, 0.99), 99);
    assert.equal(percentile([7, 8], 0.99), 8);
  });

  it("never leaves the range", () => {
    assert.equal(percentile(hundred, 0), 1);
    assert.equal(percentile(hundred, 1), 100);
  });
});

describe("summarize", () => {
  it("keeps the extremes beside the median", () => {
    assert.deepEqual(summarize([3, 1, 2]), { median: 2, min: 1, max: 3 });
  });

  it("has nothing to say of nothing", () => {
    assert.equal(summarize([]), undefined);
  });
});
