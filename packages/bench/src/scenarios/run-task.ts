import type { TaskKind, TaskResult, TaskSpec } from "../load/load-task.ts";
import { measurePath } from "../run/measure-path.ts";
import type { PathMeasurement } from "../run/measure-path.ts";
import type { Lab } from "../subjects/lab.ts";
import type { Subject } from "../subjects/subject.ts";

/** For what tasks take beyond their own limits: last answers, closing. */
const SLACK_MS = 10_000;

/**
 * Open a task on the main load process and measure what running it costs `subject`; opening its
 * connections does not count.
 */
export function runTask<Kind extends TaskKind>(
  lab: Lab,
  subject: Subject,
  kind: Kind,
  spec: TaskSpec<Kind>,
  limitMs: number,
): Promise<PathMeasurement<TaskResult<Kind>>> {
  return lab.loads.main.withTask(kind, spec, (task) =>
    measurePath(lab, subject, () => task.run(limitMs + SLACK_MS)),
  );
}
