import { readFileSync } from "node:fs";
import { arch, availableParallelism, cpus, platform, release, totalmem } from "node:os";
import type { EndCores } from "../processes/end-cores.ts";

/** What the numbers were measured on; all that may explain them, nothing that names it. */
export interface Machine {
  readonly cores: number;
  /** What the processes of each end keep to; `undefined` if both use all. */
  readonly endCores: EndCores | undefined;
  readonly cpuModel: string;
  readonly memoryGib: number;
  readonly platform: string;
  readonly kernel: string;
  /** What TCP uses unless told otherwise: BBR paces what is sent, which costs CPU. */
  readonly congestionControl: string;
  readonly nodeVersion: string;
  readonly opensslVersion: string;
}

export function describeMachine(cores: EndCores | undefined): Machine {
  return {
    cores: availableParallelism(),
    endCores: cores,
    cpuModel: cpus()[0]?.model.trim() ?? "unknown",
    memoryGib: Math.round(totalmem() / 2 ** 30),
    platform: `${platform()}-${arch()}`,
    kernel: release(),
    congestionControl: congestionControl(),
    nodeVersion: process.versions.node,
    opensslVersion: process.versions.openssl,
  };
}

/** In a line. */
export function machineText(machine: Machine): string {
  const { congestionControl: tcp, cores, cpuModel, endCores, nodeVersion } = machine;
  const { platform: system } = machine;
  const shared = endCores === undefined ? "shared by both ends" : "half of them for each end";
  return `${cores} cores (${cpuModel}), ${shared}, ${system}, TCP ${tcp}, Node ${nodeVersion}`;
}

function congestionControl(): string {
  try {
    return readFileSync("/proc/sys/net/ipv4/tcp_congestion_control", "latin1").trim();
  } catch {
    return "unknown";
  }
}
