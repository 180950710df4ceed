/** The value below which `fraction` of `sorted` lies (nearest rank); NaN if there is none. */
export function percentile(sorted: ArrayLike<number>, fraction: number): number {
  const rank = Math.ceil(fraction * sorted.length);
  return sorted[Math.min(Math.max(rank, 1), sorted.length) - 1] ?? NaN;
}

/** The middle value, or the mean of the two in the middle; NaN if there is none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? NaN) + upper) / 2;
}

/** What a series of rounds says about one number. */
export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** `undefined` if there are no values. */
export function summarize(values: readonly number[]): Summary | undefined {
  if (values.length === 0) return undefined;
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}
