import type { HistogramReading, MetricFamily, MetricSeries } from "./metric-family.ts";

interface ReadingOf<Type extends string, Value> {
  readonly name: string;
  readonly help: string;
  readonly type: Type;
  readonly series: readonly MetricSeries<Value>[];
}

/** What a family said at one moment: plain values, which may go to another process. */
export type FamilyReading =
  | ReadingOf<"counter", number>
  | ReadingOf<"gauge", number>
  | ReadingOf<"histogram", HistogramReading>;

export function readFamily(family: MetricFamily): FamilyReading {
  const { name, help } = family;
  return family.type === "histogram"
    ? { name, help, type: family.type, series: [...family.collect()] }
    : { name, help, type: family.type, series: [...family.collect()] };
}

/**
 * The sum of what several processes have read, series by series: numbers add up, histograms bucket by
 * bucket. Families with one name must be of one type, histograms of one name have the same bounds.
 */
export function sumOfReadings(readings: Iterable<readonly FamilyReading[]>): FamilyReading[] {
  const sums = new Map<string, FamilyReading>();
  for (const reading of readings) {
    for (const family of reading) {
      const sum = sums.get(family.name);
      sums.set(family.name, sum === undefined ? family : added(sum, family));
    }
  }
  return [...sums.values()];
}

/** The family that a reading describes. */
export function familyOfReading(reading: FamilyReading): MetricFamily {
  const { name, help } = reading;
  return reading.type === "histogram"
    ? { name, help, type: reading.type, collect: () => reading.series }
    : { name, help, type: reading.type, collect: () => reading.series };
}

function added(one: FamilyReading, other: FamilyReading): FamilyReading {
  if (one.type === "histogram") {
    if (other.type !== "histogram") return one;
    return { ...one, series: addedSeries(one.series, other.series, addedHistograms) };
  }
  if (other.type === "histogram") return one;
  return { ...one, series: addedSeries(one.series, other.series, (a, b) => a + b) };
}

function addedSeries<Value>(
  one: readonly MetricSeries<Value>[],
  other: readonly MetricSeries<Value>[],
  add: (one: Value, other: Value) => Value,
): MetricSeries<Value>[] {
  const sums = new Map(one.map((series) => [keyOf(series), series]));
  for (const series of other) {
    const key = keyOf(series);
    const sum = sums.get(key);
    sums.set(
      key,
      sum === undefined ? series : { labels: sum.labels, value: add(sum.value, series.value) },
    );
  }
  return [...sums.values()];
}

function keyOf({ labels }: MetricSeries<unknown>): string {
  return JSON.stringify(Object.entries(labels).sort(([one], [other]) => (one < other ? -1 : 1)));
}

function addedHistograms(one: HistogramReading, other: HistogramReading): HistogramReading {
  return {
    bounds: one.bounds,
    cumulativeCounts: one.cumulativeCounts.map(
      (count, index) => count + (other.cumulativeCounts[index] ?? 0),
    ),
    sum: one.sum + other.sum,
    count: one.count + other.count,
  };
}
