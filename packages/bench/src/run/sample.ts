/** What one process used for one measurement. */
export interface ProcessSample {
  readonly name: string;
  readonly cpuSeconds: number;
  readonly peakBytes: number;
}

/** One measurement of one subject. */
export interface Sample {
  /** By metric id. What could not be measured is missing. */
  readonly values: Readonly<Record<string, number>>;
  /** The subject's own processes. */
  readonly processes: readonly ProcessSample[];
  /** CPU time of load, endpoint and delay relay together. */
  readonly harnessCpuSeconds: number;
  /** What a reader should know about it, such as why something failed. */
  readonly remark?: string;
}
