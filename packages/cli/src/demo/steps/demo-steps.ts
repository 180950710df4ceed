import type { DemoStep } from "../demo-step.ts";
import { foreignAgent } from "./foreign-agent.ts";
import { impostorKubelet } from "./impostor-kubelet.ts";
import { kubeletRequest } from "./kubelet-request.ts";
import { logStream } from "./log-stream.ts";
import { nobodyListens } from "./nobody-listens.ts";
import { podRequest } from "./pod-request.ts";
import { serverRestart } from "./server-restart.ts";

/** The demo itself. */
export const DEMO_STEPS: readonly DemoStep[] = [
  podRequest("gRPC"),
  podRequest("CONNECT"),
  logStream,
  kubeletRequest,
  impostorKubelet,
  foreignAgent,
  nobodyListens,
  serverRestart,
];
