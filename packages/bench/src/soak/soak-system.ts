import { join } from "node:path";
import { Client } from "@reachback/client";
import { generateCertificates } from "@reachback/cli";
import type { CertificateSet } from "@reachback/cli";
import type { ChildProcesses } from "../processes/child-processes.ts";
import { freePort } from "../processes/free-port.ts";
import { descendantsOf } from "../processes/process-tree.ts";
import { ProbedProgram } from "./probed-program.ts";
import { WorkerInside } from "./worker-inside.ts";

/** Agents that are killed in turn, beside one that is left alone. */
const MORTAL_AGENTS = 2;

/** The server, an agent that lives throughout, and those that are killed and replaced. */
export class SoakSystem {
  readonly server: ProbedProgram;
  readonly steadyAgent: ProbedProgram;
  readonly clients: readonly Client[];
  readonly #mortal: ProbedProgram[];
  readonly #startAgent: () => Promise<ProbedProgram>;
  readonly #children: ChildProcesses;
  #turn = 0;
  #lastKillMs = -Infinity;
  #isReplacing = false;

  private constructor(
    children: ChildProcesses,
    server: ProbedProgram,
    [steadyAgent, ...mortal]: readonly [ProbedProgram, ...ProbedProgram[]],
    startAgent: () => Promise<ProbedProgram>,
    clients: readonly Client[],
  ) {
    this.#children = children;
    this.server = server;
    this.steadyAgent = steadyAgent;
    this.#mortal = mortal;
    this.#startAgent = startAgent;
    this.clients = clients;
  }

  /** @param workers - Processes of the server. */
  static async start(
    children: ChildProcesses,
    folder: string,
    workers: number,
  ): Promise<SoakSystem> {
    const certificates = await generateCertificates({ outDir: join(folder, "certs") });
    const grpcPath = join(folder, "grpc.sock");
    const connectPath = join(folder, "connect.sock");
    const agentPort = await freePort();
    const server = await startServer(children, certificates, {
      grpcPath,
      connectPath,
      agentPort,
      workers,
    });
    const startAgentHere = () => startAgent(children, certificates, agentPort);
    const steady = await startAgentHere();
    const mortal: ProbedProgram[] = [];
    for (let index = 0; index < MORTAL_AGENTS; index++) mortal.push(await startAgentHere());
    const clients = [
      new Client({ protocol: "grpc", address: { kind: "unix", path: grpcPath } }),
      new Client({ protocol: "http-connect", address: { kind: "unix", path: connectPath } }),
    ];
    return new SoakSystem(children, server, [steady, ...mortal], startAgentHere, clients);
  }

  /** The server's workers, if it has several. */
  get workers(): readonly WorkerInside[] {
    const { child, adminPort } = this.server;
    return descendantsOf(child.pid).map(
      (pid, index) => new WorkerInside(index + 1, pid, adminPort),
    );
  }

  get agentCount(): number {
    return 1 + this.#mortal.length;
  }

  /** Whether an agent was killed after `sinceMs`, on the clock of `performance`. */
  wasKilledSince(sinceMs: number): boolean {
    return this.#lastKillMs >= sinceMs;
  }

  get isReplacing(): boolean {
    return this.#isReplacing;
  }

  /** Kill the next agent at once, and start another one in its place. */
  async killAgent(): Promise<void> {
    const index = this.#turn++ % this.#mortal.length;
    const agent = this.#mortal[index];
    if (agent === undefined) return;
    this.#isReplacing = true;
    this.#lastKillMs = performance.now();
    await this.#children.stop(agent.child);
    this.#mortal[index] = await this.#startAgent();
    this.#isReplacing = false;
  }
}

async function startServer(
  children: ChildProcesses,
  { leaves, authorities }: CertificateSet,
  where: {
    readonly grpcPath: string;
    readonly connectPath: string;
    readonly agentPort: number;
    readonly workers: number;
  },
): Promise<ProbedProgram> {
  const { certPath, keyPath } = leaves["agent-server"];
  return ProbedProgram.start(children, "reachback-server", "/livez", (healthPort, adminPort) => [
    `--workers=${where.workers}`,
    ...(where.workers > 1 ? ["--enable-profiling"] : []),
    `--uds-name=${where.grpcPath}`,
    "--server-port=0",
    `--frontend=http-connect,unix:${where.connectPath}`,
    "--agent-bind-address=127.0.0.1",
    `--agent-port=${where.agentPort}`,
    "--health-bind-address=127.0.0.1",
    `--health-port=${healthPort}`,
    `--admin-port=${adminPort}`,
    `--cluster-cert=${certPath}`,
    `--cluster-key=${keyPath}`,
    `--cluster-ca-cert=${authorities.agent.certPath}`,
  ]);
}

async function startAgent(
  children: ChildProcesses,
  { leaves, authorities }: CertificateSet,
  serverPort: number,
): Promise<ProbedProgram> {
  const { certPath, keyPath } = leaves.agent;
  return ProbedProgram.start(children, "reachback-agent", "/readyz", (healthPort, adminPort) => [
    "--proxy-server-host=127.0.0.1",
    `--proxy-server-port=${serverPort}`,
    `--ca-cert=${authorities.agent.certPath}`,
    `--agent-cert=${certPath}`,
    `--agent-key=${keyPath}`,
    "--health-server-host=127.0.0.1",
    `--health-server-port=${healthPort}`,
    `--admin-server-port=${adminPort}`,
  ]);
}
