import { join } from "node:path";
import { joinHostPort } from "@reachback/common";
import { LOOPBACK } from "./loopback.ts";

/** The nodes of the demo, by their agents' ids. */
export type NodeName = "node-a" | "node-b";

export const NODE_NAMES: readonly NodeName[] = ["node-a", "node-b"];

/**
 * Which host each agent claims, for the server to choose by. Both are this machine, so only the
 * choice tells them apart; and every system has these two names, without any set-up.
 */
export const CLAIMED_HOSTS: Readonly<Record<NodeName, string>> = {
  "node-a": LOOPBACK,
  "node-b": "localhost",
};

/** Everything that listens, and one port where nobody does. */
const PORT_NAMES = [
  "connect",
  "agents",
  "serverHealth",
  "serverAdmin",
  "nodeAHealth",
  "nodeAAdmin",
  "nodeBHealth",
  "nodeBAdmin",
  "strangerHealth",
  "strangerAdmin",
  "kubelet",
  "pod",
  "impostor",
  "nobody",
] as const;

export type PortName = (typeof PORT_NAMES)[number];

export const PORT_COUNT = PORT_NAMES.length;

/** Where everything of the demo is. */
export class LabPlan {
  /** Removed with all that is in it when the demo ends. */
  readonly folder: string;
  readonly #ports: ReadonlyMap<PortName, number>;

  /** @param ports - {@link PORT_COUNT} of them. */
  constructor(folder: string, ports: readonly number[]) {
    this.folder = folder;
    this.#ports = new Map(PORT_NAMES.map((name, i) => [name, ports[i] ?? 0]));
  }

  port(name: PortName): number {
    return this.#ports.get(name) ?? 0;
  }

  /** Of an agent's health listener. */
  healthPort(node: NodeName): number {
    return this.port(node === "node-a" ? "nodeAHealth" : "nodeBHealth");
  }

  /** `host:port` of an endpoint, with the host by which the server finds the node's agent. */
  endpoint(node: NodeName, port: PortName): string {
    return joinHostPort(CLAIMED_HOSTS[node], this.port(port));
  }

  get certificateFolder(): string {
    return join(this.folder, "certs");
  }

  get logFolder(): string {
    return join(this.folder, "logs");
  }

  /** The gRPC frontend. */
  get socketPath(): string {
    return join(this.folder, "server.sock");
  }

  logPath(program: string): string {
    return join(this.logFolder, `${program}.log`);
  }
}
