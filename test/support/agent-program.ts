import type { TestContext } from "node:test";
import { startExecutable } from "./executable.ts";
import { freePorts } from "./free-ports.ts";
import type { EndedProgram } from "./executable.ts";
import { createTestPki } from "./pki.ts";

/** The agent's executable, which runs the build, as a process of its own. */
export interface AgentProgram {
  readonly healthPort: number;
  readonly signal: (signal: "SIGTERM" | "SIGINT" | "SIGKILL") => void;
  readonly exited: Promise<EndedProgram>;
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
  const [healthPort = 0, adminPort] = await freePorts(t, 2);
  const program = startExecutable(
    t,
    "reachback-agent",
    [
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
    { env },
  );
  return {
    healthPort,
    signal: (signal) => {
      program.signal(signal);
    },
    exited: program.ended,
  };
}
