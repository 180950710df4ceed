import { get } from "node:http";
import type { LabPlan, NodeName } from "./lab-plan.ts";
import { LOOPBACK } from "./loopback.ts";

/** Counters of an agent that grow when it is asked for a connection, whether it gets one or not. */
const COUNTERS = [
  "reachback_agent_connections_opened_total",
  "konnectivity_network_proxy_agent_endpoint_dial_failure_total",
];

/** How many connections each node's agent has been asked for, from its metrics. */
export async function connectionCounts(
  plan: LabPlan,
  signal: AbortSignal,
): Promise<Record<NodeName, number>> {
  const countOf = async (node: NodeName) => {
    const url = `http://${LOOPBACK}:${plan.healthPort(node)}/metrics`;
    return sumOf(await textAt(url, signal), COUNTERS);
  };
  const [nodeA, nodeB] = await Promise.all([countOf("node-a"), countOf("node-b")]);
  return { "node-a": nodeA, "node-b": nodeB };
}

/** The sum of the named metrics over all their labels, in Prometheus' text format. */
function sumOf(metrics: string, names: readonly string[]): number {
  let sum = 0;
  for (const line of metrics.split("\n")) {
    const [name = "", value] = line.replace(/\{.*\}/, "").split(" ");
    if (names.includes(name)) sum += Number(value);
  }
  return sum;
}

function textAt(url: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent: false, signal }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => {
        text += piece;
      });
      response.once("error", reject);
      response.once("end", () => {
        resolve(text);
      });
    });
    request.once("error", reject);
  });
}
