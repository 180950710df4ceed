import type { Labels, MetricSeries } from "./metric-family.ts";

/** A number that only grows. Adding to it is one addition. */
export class Counter {
  #value = 0;

  get value(): number {
    return this.#value;
  }

  add(amount = 1): void {
    this.#value += amount;
  }
}

/**
 * One counter for each combination of label values that has occurred. For events, not for packets:
 * an increment makes a string. Label values must come from a closed set.
 */
export class LabelledCounter<LabelName extends string> {
  readonly #labelNames: readonly LabelName[];
  readonly #bySeries = new Map<string, { readonly labels: Labels; count: number }>();

  constructor(labelNames: readonly LabelName[]) {
    this.#labelNames = labelNames;
  }

  increment(labels: Readonly<Record<LabelName, string>>): void {
    const key = this.#labelNames.map((name) => labels[name]).join("\n");
    const series = this.#bySeries.get(key);
    if (series === undefined) this.#bySeries.set(key, { labels, count: 1 });
    else series.count++;
  }

  *series(): Iterable<MetricSeries> {
    for (const { labels, count } of this.#bySeries.values()) yield { labels, value: count };
  }
}
