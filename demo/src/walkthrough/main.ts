import { stringType } from "@reachback/common";
import { readCluster } from "../cluster/cluster.ts";
import { fileFlag, runProgram } from "../program.ts";
import { ApiClient } from "./api-client.ts";
import { stepsFor } from "./steps.ts";
import type { Step } from "./steps.ts";

interface Row {
  readonly mark: "ok" | "FAIL";
  readonly what: string;
  readonly time: string;
  readonly outcome: string;
}

await runProgram({
  name: "demo-walkthrough",
  summary:
    "Asks the demo's apiserver for what kubectl asks for, on every node, and prints a table. " +
    "Exits 0 only if every line is as it must be.",
  examples: "demo/bin/walkthrough.js --cluster=demo/cluster.json --kubeconfig=demo/kubeconfig",
  flags: {
    cluster: fileFlag("Cluster", "demo/cluster.json", "Nodes, pods and services: JSON."),
    kubeconfig: fileFlag("Cluster", "demo/kubeconfig", "As the apiserver has written it."),
    server: {
      type: stringType,
      default: "",
      defaultText: "as in the kubeconfig",
      group: "Cluster",
      placeholder: "url",
      help: "Where the apiserver is.",
    },
  },
  start: async ({ kubeconfig, server, cluster: clusterPath }) => {
    const api = new ApiClient(kubeconfig, server);
    const steps = stepsFor({ api, cluster: readCluster(clusterPath) });
    const rows: Row[] = [];
    for (const step of steps) rows.push(await perform(step));
    process.stdout.write(tableOf(rows));
    return rows.every(({ mark }) => mark === "ok") ? 0 : 1;
  },
});

async function perform({ what, run }: Step): Promise<Row> {
  const startedAtMs = performance.now();
  const [mark, outcome] = await run().then(
    (text) => ["ok", text] as const,
    (error: unknown) => ["FAIL", error instanceof Error ? error.message : String(error)] as const,
  );
  return { mark, what, time: `${Math.round(performance.now() - startedAtMs)} ms`, outcome };
}

function tableOf(rows: readonly Row[]): string {
  const whatWidth = Math.max(...rows.map(({ what }) => what.length));
  const line = (mark: string, what: string, time: string, outcome: string) =>
    `${mark.padEnd(4)}  ${what.padEnd(whatWidth)}  ${time.padStart(7)}  ${outcome}\n`;
  return [
    line("", "kubectl", "time", "outcome"),
    ...rows.map(({ mark, what, time, outcome }) => line(mark, what, time, outcome)),
  ].join("");
}
