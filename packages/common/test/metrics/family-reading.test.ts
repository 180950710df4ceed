import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { familyText } from "../../src/metrics/exposition.ts";
import { familyOfReading, sumOfReadings } from "../../src/metrics/family-reading.ts";
import type { FamilyReading } from "../../src/metrics/family-reading.ts";
import { Histogram } from "../../src/metrics/histogram.ts";
import { MetricRegistry } from "../../src/metrics/metric-registry.ts";

/** What a process reads that has counted `count` and observed `values`. */
function processWith(reason: string, count: number, values: readonly number[]): FamilyReading[] {
  const registry = new MetricRegistry();
  const histogram = new Histogram([1, 5]);
  for (const value of values) histogram.observe(value);
  registry.add({
    name: "failures_total",
    help: "Failures.",
    type: "counter",
    collect: () => [{ labels: { reason, where: "here" }, value: count }],
  });
  registry.add({
    name: "seconds",
    help: "Time.",
    type: "histogram",
    collect: () => histogram.series(),
  });
  return structuredClone(registry.readings());
}

function textOf(readings: readonly FamilyReading[]): string {
  return readings.map((reading) => familyText(familyOfReading(reading))).join("");
}

describe("the sum of what processes have read", () => {
  it("adds numbers series by series, and histograms bucket by bucket", () => {
    const sum = sumOfReadings([
      processWith("a", 1, [0.5, 3]),
      processWith("b", 2, []),
      processWith("a", 4, [0.25, 70]),
    ]);
    assert.equal(
      textOf(sum),
      [
        "# HELP failures_total Failures.",
        "# TYPE failures_total counter",
        'failures_total{reason="a",where="here"} 5',
        'failures_total{reason="b",where="here"} 2',
        "# HELP seconds Time.",
        "# TYPE seconds histogram",
        'seconds_bucket{le="1"} 2',
        'seconds_bucket{le="5"} 3',
        'seconds_bucket{le="+Inf"} 4',
        "seconds_sum 73.75",
        "seconds_count 4",
        "",
      ].join("\n"),
    );
  });

  it("of one process is what it reads, and of none nothing", () => {
    const reading = processWith("a", 1, [2]);
    assert.equal(textOf(sumOfReadings([reading])), textOf(reading));
    assert.deepEqual(sumOfReadings([]), []);
  });
});
