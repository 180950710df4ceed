import { join } from "node:path";
import type { TestContext } from "node:test";
import { statusOf, temporaryFolder, until } from "./cluster.ts";
import { startExecutable } from "./executable.ts";
import { freePorts } from "./free-ports.ts";
import type { RunningProgram } from "./executable.ts";
import { createTestPki, serverCertificateFlags } from "./pki.ts";

/** The server's and the agent's executables, with a tunnel between them. */
export interface RunningSystem {
  readonly server: RunningProgram;
  readonly agent: RunningProgram;
  /** The CONNECT frontends: on a Unix socket, and on TCP by mutual TLS. */
  readonly connectPath: string;
  readonly connectPort: number;
}

/** Start both executables; resolves when they are ready, and kills them when the test ends. */
export async function startSystem(
  t: TestContext,
  serverFlags: readonly string[] = [],
): Promise<RunningSystem> {
  const pki = createTestPki();
  const connectPath = join(temporaryFolder(t), "connect.sock");
  const [connectPort = 0, agentPort, health, admin, agentHealth = 0, agentAdmin] = await freePorts(
    t,
    6,
  );
  const server = startExecutable(t, "reachback-server", [
    "--mode=http-connect",
    `--uds-name=${connectPath}`,
    "--server-port=0",
    `--frontend=http-connect,127.0.0.1:${connectPort}`,
    ...serverCertificateFlags(pki),
    "--agent-bind-address=127.0.0.1",
    `--agent-port=${agentPort}`,
    "--health-bind-address=127.0.0.1",
    `--health-port=${health}`,
    `--admin-port=${admin}`,
    ...serverFlags,
  ]);
  await server.said('"program.started"');
  const agent = startExecutable(t, "reachback-agent", [
    `--proxy-server-port=${agentPort}`,
    `--ca-cert=${pki.agentCa.certPath}`,
    `--agent-cert=${pki.agentClient.certPath}`,
    `--agent-key=${pki.agentClient.keyPath}`,
    "--health-server-host=127.0.0.1",
    `--health-server-port=${agentHealth}`,
    `--admin-server-port=${agentAdmin}`,
  ]);
  await agent.said('"program.started"');
  await until(async () => (await statusOf(agentHealth, "/readyz")) === 200);
  return { server, agent, connectPath, connectPort };
}
