import type { Lab } from "../subjects/lab.ts";
import type { Subject, SubjectId } from "../subjects/subject.ts";
import type { Metric } from "./metric.ts";
import type { Sample } from "./sample.ts";

/** One thing to measure, on every path that can do it: a table of the report. */
export interface BenchCase {
  /** Unique; a key in JSON. */
  readonly id: string;
  readonly title: string;
  readonly metrics: readonly Metric[];
  /** Who takes part, in the order of the table. */
  readonly subjectIds: readonly SubjectId[];
  /** To whom the others are compared. */
  readonly referenceId: SubjectId;
  /** Titles of rows where the subject's own would mislead. */
  readonly rowTitles?: Readonly<Partial<Record<SubjectId, string>>>;
  /**
   * - `shared`: cases with the same subjects and link, one after another, use the same processes,
   *   all subjects at once.
   * - `sample`: every measurement gets fresh processes, and its subject for itself.
   */
  readonly labLifetime: "shared" | "sample";
  /** What the link adds to a round trip; `undefined` for a link without delay relay. */
  readonly rttMs?: number;
  /** Whether {@link measure} also needs the lab's undelayed paths. */
  readonly withUndelayed?: boolean;
  /** Where fewer rounds do. */
  readonly maxRounds?: number;
  measure(lab: Lab, subject: Subject): Promise<Sample>;
}
