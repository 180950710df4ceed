import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { CliHost } from "../cli-host.ts";
import { Apiserver } from "./apiserver.ts";
import { ChildProgram } from "./child-program.ts";
import type { LabCertificates } from "./lab-certificates.ts";
import { makeLabCertificates } from "./lab-certificates.ts";
import { CLAIMED_HOSTS, NODE_NAMES } from "./lab-plan.ts";
import type { LabPlan, NodeName, PortName } from "./lab-plan.ts";
import { textOf } from "./log-record.ts";
import type { LogRecord } from "./log-record.ts";
import { LOOPBACK } from "./loopback.ts";
import { programPath } from "./program-path.ts";

/** The processes, by the names of their logs. */
export type ProgramName = "server" | NodeName | "stranger" | "kubelet" | "pod" | "impostor";

/** This command itself, which has the endpoints as a subcommand that help does not show. */
const REACHBACK_PATH = fileURLToPath(new URL("../../bin/reachback.js", import.meta.url));

/** Show every connection in the logs. */
const VERBOSITY = "--v=5";

/** Everything that the demo starts, apart from the demo itself, which plays the apiserver. */
export class Lab {
  readonly plan: LabPlan;
  readonly #host: CliHost;
  readonly #programs = new Map<ProgramName, ChildProgram>();
  #certificates: LabCertificates | undefined;
  #apiserver: Apiserver | undefined;
  #isStopped = false;

  constructor(plan: LabPlan, host: CliHost) {
    this.plan = plan;
    this.#host = host;
  }

  get certificates(): LabCertificates {
    if (this.#certificates === undefined) throw new Error("there are no certificates yet");
    return this.#certificates;
  }

  get apiserver(): Apiserver {
    this.#apiserver ??= new Apiserver(this.plan, this.certificates, this.#host.clock);
    return this.#apiserver;
  }

  get clock(): CliHost["clock"] {
    return this.#host.clock;
  }

  /** The latest process of that name, if there was one. */
  program(name: ProgramName): ChildProgram | undefined {
    return this.#programs.get(name);
  }

  get programs(): readonly ChildProgram[] {
    return [...this.#programs.values()];
  }

  async makeCertificates(): Promise<void> {
    mkdirSync(this.plan.logFolder);
    this.#certificates = await makeLabCertificates(this.plan.certificateFolder, this.#host.clock);
  }

  /** Start what is to be reached: a kubelet, a pod, and what pretends to be a kubelet. */
  async startEndpoints(signal: AbortSignal): Promise<void> {
    const { authorities, leaves, foreign } = this.certificates;
    const kubelet = this.#startEndpoint("kubelet", "kubelet", [
      `--cert=${leaves.kubelet.certPath}`,
      `--key=${leaves.kubelet.keyPath}`,
      `--client-ca=${authorities.kubelet.certPath}`,
    ]);
    const impostor = this.#startEndpoint("impostor", "kubelet", [
      `--cert=${foreign.kubelet.certPath}`,
      `--key=${foreign.kubelet.keyPath}`,
    ]);
    const pod = this.#startEndpoint("pod", "pod", []);
    await Promise.all([kubelet, impostor, pod].map((program) => program.started(signal)));
  }

  async startServer(signal: AbortSignal): Promise<void> {
    const { authorities, leaves } = this.certificates;
    const { plan } = this;
    const server = this.#start(
      "server",
      programPath(import.meta.resolve("@reachback/server"), "reachback-server"),
      [
        `--uds-name=${plan.socketPath}`,
        "--server-port=0",
        `--frontend=http-connect,${LOOPBACK}:${plan.port("connect")}`,
        `--server-cert=${leaves["frontend-server"].certPath}`,
        `--server-key=${leaves["frontend-server"].keyPath}`,
        `--server-ca-cert=${authorities.frontend.certPath}`,
        `--agent-bind-address=${LOOPBACK}`,
        `--agent-port=${plan.port("agents")}`,
        `--cluster-cert=${leaves["agent-server"].certPath}`,
        `--cluster-key=${leaves["agent-server"].keyPath}`,
        `--cluster-ca-cert=${authorities.agent.certPath}`,
        "--proxy-strategies=destHost,default",
        "--server-id=server",
        `--health-bind-address=${LOOPBACK}`,
        `--health-port=${plan.port("serverHealth")}`,
        `--admin-bind-address=${LOOPBACK}`,
        `--admin-port=${plan.port("serverAdmin")}`,
        VERBOSITY,
      ],
    );
    await server.started(signal);
  }

  /** Start the agent of each node; resolves when both have a tunnel. */
  async startAgents(signal: AbortSignal): Promise<void> {
    const { agent } = this.certificates.leaves;
    this.#startAgent("node-a", agent, "nodeAHealth", "nodeAAdmin");
    this.#startAgent("node-b", agent, "nodeBHealth", "nodeBAdmin");
    await this.agentsConnected(signal);
  }

  /** Start an agent whose certificate no server here has reason to accept. */
  startStranger(): ChildProgram {
    const { foreign } = this.certificates;
    return this.#startAgent("stranger", foreign.agent, "strangerHealth", "strangerAdmin");
  }

  /** Wait until the server has a tunnel from each node, or say which agent has ended. */
  async agentsConnected(signal: AbortSignal): Promise<void> {
    const server = this.program("server");
    const lost = new AbortController();
    const waitSignal = AbortSignal.any([signal, lost.signal]);
    const connected = NODE_NAMES.map(async (name) => {
      void this.program(name)?.ended.then((ending) => {
        lost.abort(new Error(`the agent of ${name} ended with ${ending}`));
      });
      await server?.waitForLog((record) => isTunnelOf(name, record), waitSignal);
    });
    await Promise.all(connected);
  }

  /** Kill the server as a crash would, and start it again with the same flags. */
  async restartServer(signal: AbortSignal): Promise<void> {
    await this.program("server")?.kill();
    await this.startServer(signal);
  }

  /** End every process at once, and start no more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#apiserver?.close();
    await Promise.all(this.programs.map((program) => program.kill()));
  }

  #startAgent(
    name: NodeName | "stranger",
    certificate: { readonly certPath: string; readonly keyPath: string },
    health: PortName,
    admin: PortName,
  ): ChildProgram {
    const { plan } = this;
    // The stranger claims a node's address, so a server that let it in would use it.
    const claimed = CLAIMED_HOSTS[name === "stranger" ? "node-a" : name];
    const identifier = claimed === LOOPBACK ? "ipv4" : "host";
    return this.#start(
      name,
      programPath(import.meta.resolve("@reachback/agent"), "reachback-agent"),
      [
        `--agent-id=${name}`,
        `--agent-identifiers=${identifier}=${claimed}`,
        `--proxy-server-host=${LOOPBACK}`,
        `--proxy-server-port=${plan.port("agents")}`,
        `--ca-cert=${this.certificates.authorities.agent.certPath}`,
        `--agent-cert=${certificate.certPath}`,
        `--agent-key=${certificate.keyPath}`,
        `--health-server-host=${LOOPBACK}`,
        `--health-server-port=${plan.port(health)}`,
        `--admin-bind-address=${LOOPBACK}`,
        `--admin-server-port=${plan.port(admin)}`,
        VERBOSITY,
      ],
    );
  }

  #startEndpoint(
    name: "kubelet" | "pod" | "impostor",
    kind: "kubelet" | "pod",
    flags: readonly string[],
  ): ChildProgram {
    const port = `--port=${this.plan.port(name)}`;
    return this.#start(name, REACHBACK_PATH, ["demo-endpoint", kind, port, ...flags]);
  }

  #start(name: ProgramName, scriptPath: string, flags: readonly string[]): ChildProgram {
    if (this.#isStopped) throw new Error("the demo has been stopped");
    const logPath = this.plan.logPath(name);
    const program = new ChildProgram({ name, scriptPath, flags, logPath }, this.#host);
    this.#programs.set(name, program);
    return program;
  }
}

function isTunnelOf(name: NodeName, record: LogRecord): boolean {
  return textOf(record, "event") === "tunnel.opened" && textOf(record, "agentId") === name;
}
