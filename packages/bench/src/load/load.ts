import { openBulk } from "./bulk-task.ts";
import { openDials } from "./dials-task.ts";
import { openEcho } from "./echo-task.ts";
import { openIdle } from "./idle-task.ts";
import type { LoadCommands, OpenTask, TaskKind, TaskResult, TaskSpec } from "./load-task.ts";
import { openStall } from "./stall-task.ts";

const OPENERS: {
  [Kind in TaskKind]: (spec: TaskSpec<Kind>) => Promise<OpenTask<TaskResult<Kind>>>;
} = {
  bulk: openBulk,
  echo: openEcho,
  dials: openDials,
  idle: openIdle,
  stall: openStall,
};

/** The near end of every connection. */
export function loadCommands(): LoadCommands {
  const tasks = new Map<number, OpenTask<TaskResult<TaskKind>>>();
  let lastTaskId = 0;
  return {
    open: async ({ kind, spec }) => {
      // The pair of kind and spec is checked where it is made.
      const open = OPENERS[kind] as (
        spec: TaskSpec<TaskKind>,
      ) => Promise<OpenTask<TaskResult<TaskKind>>>;
      const task = await open(spec);
      tasks.set(++lastTaskId, task);
      return lastTaskId;
    },
    run: (taskId) => {
      const task = tasks.get(taskId);
      if (task === undefined) throw new Error(`no task ${taskId}`);
      return task.run();
    },
    close: (taskId) => {
      tasks.get(taskId)?.close();
      tasks.delete(taskId);
    },
  };
}
