import type { ArrivedLine } from "../apiserver.ts";
import type { DemoStep } from "../demo-step.ts";
import { LOG_LINE_COUNT, LOG_PATH } from "../endpoints/demo-kubelet.ts";

/** `kubectl logs --follow`: lines come as the container writes them, not all at the end. */
export const logStream: DemoStep = {
  title: "log stream",
  frontends: "gRPC",
  nodes: ["node-a"],
  expected: `lines 1 to ${LOG_LINE_COUNT}, the first before the kubelet has written the last`,
  programs: ["server", "node-a", "kubelet"],
  run: async (lab, signal) => {
    const url = `https://${lab.plan.endpoint("node-a", "kubelet")}${LOG_PATH}`;
    const { status, lines } = await lab.apiserver.get("gRPC", url, signal);
    const [first] = lines;
    const last = lines.at(-1);
    if (status !== 200 || first === undefined || last === undefined || !isComplete(lines)) {
      throw new Error(`${status} and ${JSON.stringify(lines.map(({ text }) => text))}`);
    }
    const [firstMs, lastMs] = [first.elapsedMs, last.elapsedMs].map(Math.round);
    if (first.wallTimeMs >= writtenAtMs(last)) {
      throw new Error(`all lines at once, after ${firstMs} ms`);
    }
    return `${lines.length} lines as they were written: first after ${firstMs} ms, last after ${lastMs} ms`;
  },
};

function isComplete(lines: readonly ArrivedLine[]): boolean {
  return (
    lines.length === LOG_LINE_COUNT &&
    lines.every(({ text }, i) => text.endsWith(` line ${i + 1} of ${LOG_LINE_COUNT}`))
  );
}

/** From the kubelet's time stamp, which it puts before each line. */
function writtenAtMs({ text }: ArrivedLine): number {
  return Date.parse(text.split(" ")[0] ?? "");
}
