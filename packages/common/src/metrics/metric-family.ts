/** Label names and values of one series. The order of the names does not matter. */
export type Labels = Readonly<Record<string, string>>;

/** What a histogram has seen, as it is written out. */
export interface HistogramReading {
  /** Upper bounds, ascending, without the infinite one. */
  readonly bounds: readonly number[];

  /** How many observations are at most `bounds[i]`. */
  readonly cumulativeCounts: readonly number[];
  readonly sum: number;
  readonly count: number;
}

export interface MetricSeries<Value = number> {
  readonly labels: Labels;
  readonly value: Value;
}

interface FamilyOf<Type extends string, Value> {
  readonly name: string;
  readonly help: string;
  readonly type: Type;

  /**
   * The series at this moment, in any order; called once per scrape, so that nothing but plain
   * numbers has to be kept in between. A family without a series is left out altogether.
   */
  collect(): Iterable<MetricSeries<Value>>;
}

/** All series of one name, as a scrape writes them. */
export type MetricFamily =
  FamilyOf<"counter", number> | FamilyOf<"gauge", number> | FamilyOf<"histogram", HistogramReading>;

/** The one series of a metric without labels. */
export function unlabelled<Value>(value: Value): readonly MetricSeries<Value>[] {
  return [{ labels: {}, value }];
}
