/** What a unit looks like in a table; the number of digits follows from the size of the number. */
export type Unit = "MiB/s" | "s/GiB" | "/s" | "µs" | "ms" | "MiB" | "KB" | "%" | "";

/** One number that a case measures. */
export interface Metric {
  /** Its key in samples and in JSON. */
  readonly id: string;
  readonly title: string;
  readonly unit: Unit;
  readonly better: "higher" | "lower";
  /** Whether its ratio to the reference is worth a column. */
  readonly isCompared: boolean;
}
