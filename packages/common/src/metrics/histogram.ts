import type { HistogramReading, Labels, MetricSeries } from "./metric-family.ts";

/** Counts observations by fixed upper bounds. An observation is a short loop and allocates nothing. */
export class Histogram {
  readonly #bounds: readonly number[];
  /** By the first bound that holds the observation; the last one is for those above all bounds. */
  readonly #counts: Float64Array;
  #sum = 0;
  #count = 0;

  /** @param bounds - inclusive upper bounds in ascending order, without the infinite one. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let index = 0;
    // Written so that NaN, too, ends up above all bounds.
    while (index < bounds.length && !(value <= (bounds[index] ?? Infinity))) index++;
    this.#counts[index] = (this.#counts[index] ?? 0) + 1;
    this.#sum += value;
    this.#count++;
  }

  /** Nothing until the first observation, as upstream's. */
  series(labels: Labels = {}): readonly MetricSeries<HistogramReading>[] {
    return this.#count === 0 ? [] : [{ labels, value: this.#reading() }];
  }

  #reading(): HistogramReading {
    let cumulative = 0;
    return {
      bounds: this.#bounds,
      cumulativeCounts: this.#bounds.map((_, index) => (cumulative += this.#counts[index] ?? 0)),
      sum: this.#sum,
      count: this.#count,
    };
  }
}

/** One histogram for each value of one label that has occurred. The values are a closed set. */
export class LabelledHistogram {
  readonly #labelName: string;
  readonly #bounds: readonly number[];
  readonly #byValue = new Map<string, Histogram>();

  constructor(labelName: string, bounds: readonly number[]) {
    this.#labelName = labelName;
    this.#bounds = bounds;
  }

  observe(labelValue: string, value: number): void {
    let histogram = this.#byValue.get(labelValue);
    if (histogram === undefined) {
      histogram = new Histogram(this.#bounds);
      this.#byValue.set(labelValue, histogram);
    }
    histogram.observe(value);
  }

  *series(): Iterable<MetricSeries<HistogramReading>> {
    for (const [labelValue, histogram] of this.#byValue) {
      yield* histogram.series({ [this.#labelName]: labelValue });
    }
  }
}
