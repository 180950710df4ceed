import type { Answer, Frontend } from "../apiserver.ts";
import type { DemoStep } from "../demo-step.ts";
import { POD_GREETING } from "../endpoints/demo-pod.ts";
import type { Lab } from "../lab.ts";

/** A request to a pod, by plain HTTP. */
export function podRequest(frontend: Frontend): DemoStep {
  return {
    title: "pod request",
    frontends: frontend,
    nodes: ["node-b"],
    expected: `200 and "${POD_GREETING}"`,
    programs: ["server", "node-b", "pod"],
    run: async (lab, signal) => {
      const { status, body } = await getFromPod(lab, frontend, signal);
      return `${status}, "${body.trim()}"`;
    },
  };
}

/** @throws {Error} if it is not the pod's answer. */
export async function getFromPod(
  lab: Lab,
  frontend: Frontend,
  signal: AbortSignal,
): Promise<Answer> {
  const url = `http://${lab.plan.endpoint("node-b", "pod")}/`;
  const answer = await lab.apiserver.get(frontend, url, signal);
  if (answer.status !== 200 || answer.body !== `${POD_GREETING}\n`) {
    throw new Error(`${answer.status} and ${JSON.stringify(answer.body)}`);
  }
  return answer;
}
