import type { DemoStep } from "../demo-step.ts";
import { getFromKubelet } from "./kubelet-request.ts";
import { getFromPod } from "./pod-request.ts";

/** The server is killed and started again: the agents come back by themselves. */
export const serverRestart: DemoStep = {
  title: "server killed, restarted",
  frontends: "both",
  nodes: ["node-a", "node-b"],
  expected: "both agents to come back, and the pod and the kubelet to answer as before",
  programs: ["server", "node-a", "node-b"],
  run: async (lab, signal) => {
    const { clock } = lab;
    const killedAtMs = clock.now();
    await lab.restartServer(signal);
    const listeningAtMs = clock.now();
    await lab.agentsConnected(signal);
    const backAtMs = clock.now();
    await getFromPod(lab, "gRPC", signal);
    await getFromKubelet(lab, "CONNECT", signal);
    const answeredAtMs = clock.now();
    const [listeningMs, backMs, answerMs] = [
      listeningAtMs - killedAtMs,
      backAtMs - killedAtMs,
      answeredAtMs - backAtMs,
    ].map(Math.round);
    return `server up after ${listeningMs} ms, both agents back after ${backMs} ms; then pod and kubelet answer in ${answerMs} ms`;
  },
};
