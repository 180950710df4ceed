import type { OpenTask, TaskResult, TaskSpec } from "./load-task.ts";
import { openConnections } from "./open-connections.ts";

export async function openIdle(spec: TaskSpec<"idle">): Promise<OpenTask<TaskResult<"idle">>> {
  const connections = await openConnections(spec.route, spec.connections);
  let open = connections.length;
  const handler = {
    received: () => undefined,
    closed: () => {
      open--;
    },
  };
  for (const connection of connections) connection.handler = handler;
  return {
    run: () => Promise.resolve({ open }),
    close: () => {
      for (const connection of connections) connection.destroy();
    },
  };
}
