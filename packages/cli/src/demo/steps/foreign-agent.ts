import type { DemoStep } from "../demo-step.ts";
import { textOf } from "../log-record.ts";

/**
 * An agent with a certificate of another CA, and the address of a node: the server turns it away
 * before it can say anything.
 */
export const foreignAgent: DemoStep = {
  title: "agent of another CA refused",
  frontends: "-",
  nodes: [],
  expected: "the server to refuse its certificate, because of the CA, and it to get no tunnel",
  programs: ["server", "stranger"],
  run: async (lab, signal) => {
    const server = lab.program("server");
    const linesBefore = server?.lineCount;
    const stranger = lab.startStranger();
    try {
      const [rejected, refused] = await Promise.all([
        server?.waitForLog(({ event }) => event === "listener.rejected", signal, linesBefore),
        stranger.waitForLog(
          ({ event }) => event === "tunnel.refused" || event === "tunnel.opened",
          signal,
        ),
      ]);
      if (textOf(refused, "event") === "tunnel.opened") throw new Error("it got a tunnel");
      const reason = textOf(rejected ?? {}, "reason");
      if (!reason.includes("wrong CA")) throw new Error(`the server refused it: ${reason}`);
      return `server: ${reason}; agent: ${textOf(refused, "error")}`;
    } finally {
      await stranger.kill();
    }
  },
};
