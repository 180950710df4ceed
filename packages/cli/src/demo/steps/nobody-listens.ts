import { ClientError } from "@reachback/client";
import type { DemoStep } from "../demo-step.ts";

/** A request to a port where nobody listens: the error says so, in Go's words. */
export const nobodyListens: DemoStep = {
  title: "nobody listens",
  frontends: "CONNECT",
  nodes: ["node-a"],
  expected: "an error from the agent that names the address, and says connection refused",
  programs: ["server", "node-a"],
  run: async (lab, signal) => {
    const endpoint = lab.plan.endpoint("node-a", "nobody");
    let status: number;
    try {
      ({ status } = await lab.apiserver.get("CONNECT", `http://${endpoint}/`, signal));
    } catch (error) {
      const isClear =
        error instanceof ClientError &&
        error.code === "ERR_DIAL_FAILED" &&
        error.message.includes(`${endpoint}: connect: connection refused`);
      if (!isClear) throw error;
      return error.message;
    }
    throw new Error(`an answer: ${status}`);
  },
};
