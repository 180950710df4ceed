import type { LoadClient } from "../load/load-client.ts";
import type { Route } from "../load/route.ts";
import type { Plan } from "../plan.ts";
import type { Lab } from "../subjects/lab.ts";
import { ENDPOINT_NAMES } from "../subjects/subject.ts";
import type { Subject } from "../subjects/subject.ts";

const LIMIT_MS = 5_000;
const SLACK_MS = 10_000;

/** Let everything be compiled and every buffer grow before something counts. */
export async function warmUp(lab: Lab, subject: Subject, plan: Plan): Promise<void> {
  for (const name of ENDPOINT_NAMES) {
    await warmUpOne(lab.loads[name], subject.routes[name], plan);
  }
}

async function warmUpOne(load: LoadClient, route: Route, plan: Plan): Promise<void> {
  for (const direction of ["download", "upload"] as const) {
    await load.withTask(
      "bulk",
      { route, direction, connections: 2, byteCount: plan.warmUpBytes, limitMs: LIMIT_MS },
      (task) => task.run(LIMIT_MS + SLACK_MS),
    );
  }
  await load.withTask(
    "echo",
    { route, connections: 8, durationMs: plan.warmUpMs, pauseMs: 0 },
    (task) => task.run(plan.warmUpMs + SLACK_MS),
  );
}
