import { spawn } from "node:child_process";
import { once } from "node:events";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { freePorts } from "./free-ports.ts";
import { createTestPki } from "./pki.ts";

const PROGRAM = fileURLToPath(
  new URL("../../packages/agent/bin/reachback-agent.js", import.meta.url),
);

/** The agent's executable, which runs the build, as a process of its own. */
export interface AgentProgram {
  readonly healthPort: number;
  readonly signal: (signal: "SIGTERM" | "SIGINT" | "SIGKILL") => void;
  /** How it exited, and what it had written to standard error. */
  readonly exited: Promise<{
    readonly code: number | null;
    readonly signal: string | null;
    readonly stderr: string;
  }>;
}

export interface AgentProgramOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Start the agent for a server on loopback; what is left of it is killed when the test ends. */
export async function startAgentProgram(
  t: TestContext,
  serverPort: number,
  { args = [], env = {} }: AgentProgramOptions = {},
): Promise<AgentProgram> {
  const { agentCa, agentClient } = createTestPki();
  const [healthPort, adminPort] = await freePorts(t, 2);
  const child = spawn(
    process.execPath,
    [
      PROGRAM,
      `--proxy-server-port=${serverPort}`,
      `--ca-cert=${agentCa.certPath}`,
      `--agent-cert=${agentClient.certPath}`,
      `--agent-key=${agentClient.keyPath}`,
      "--health-server-host=127.0.0.1",
      `--health-server-port=${healthPort}`,
      `--admin-server-port=${adminPort}`,
      "--sync-interval=20ms",
      ...args,
    ],
    { stdio: ["ignore", "ignore", "pipe"], env: { PATH: process.env["PATH"], ...env } },
  );
  let stderr = "";
  child.stderr.on("data", (piece: Buffer) => {
    stderr += piece.toString();
  });
  const exited = once(child, "close").then(([code, signal]) => ({
    code: code as number | null,
    signal: signal as string | null,
    stderr,
  }));
  t.after(() => {
    child.kill("SIGKILL");
    return exited;
  });
  return {
    healthPort: healthPort!,
    signal: (signal) => {
      child.kill(signal);
    },
    exited,
  };
}
