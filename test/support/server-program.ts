import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { WORKERS, statusOf, temporaryFolder, until } from "./cluster.ts";
import { createTestPki } from "./pki.ts";

const PROGRAM = fileURLToPath(
  new URL("../../packages/server/bin/reachback-server.js", import.meta.url),
);

/** The server's executable, which runs the build, as a process of its own. */
export interface ServerProgram {
  readonly agentPort: number;
  readonly healthPort: number;
  /** Socket of its gRPC frontend. */
  readonly grpcPath: string;
  /** Tell it to stop; resolves with its exit code when it is gone. */
  terminate(): Promise<number | null>;
  /** End it at once, as `kill -9` does; resolves when it is gone. */
  kill(): Promise<void>;
}

export interface ServerProgramOptions {
  readonly serverId: string;
  readonly agentPort: number;
  readonly healthPort: number;
  readonly adminPort: number;
  readonly args?: readonly string[];
}

/** Start the server; resolves once it listens. It is killed when the test ends. */
export async function startServerProgram(
  t: TestContext,
  { serverId, agentPort, healthPort, adminPort, args = [] }: ServerProgramOptions,
): Promise<ServerProgram> {
  const { agentCa, serverAgent } = createTestPki();
  const grpcPath = join(temporaryFolder(t), "frontend.sock");
  const child = spawn(
    process.execPath,
    [
      PROGRAM,
      `--server-id=${serverId}`,
      `--uds-name=${grpcPath}`,
      "--server-port=0",
      "--agent-bind-address=127.0.0.1",
      `--agent-port=${agentPort}`,
      `--cluster-cert=${serverAgent.certPath}`,
      `--cluster-key=${serverAgent.keyPath}`,
      `--cluster-ca-cert=${agentCa.certPath}`,
      "--health-bind-address=127.0.0.1",
      `--health-port=${healthPort}`,
      `--admin-port=${adminPort}`,
      `--workers=${WORKERS}`,
      ...args,
    ],
    { stdio: ["ignore", "ignore", "inherit"], env: { PATH: process.env["PATH"] } },
  );
  const closed = once(child, "close");
  const kill = async () => {
    child.kill("SIGKILL");
    await closed;
  };
  const terminate = async () => {
    child.kill("SIGTERM");
    await closed;
    return child.exitCode;
  };
  t.after(kill);
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`the server exited with ${child.exitCode}`);
    return (await statusOf(healthPort, "/livez").catch(() => 0)) === 200;
  });
  return { agentPort, healthPort, grpcPath, terminate, kill };
}
