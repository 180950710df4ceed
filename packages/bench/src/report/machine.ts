import { readFileSync } from "node:fs";
import { arch, availableParallelism, cpus, platform, release, totalmem } from "node:os";

/** What the numbers were measured on; all that may explain them, nothing that names it. */
export interface Machine {
  readonly cores: number;
  readonly cpuModel: string;
  readonly memoryGib: number;
  readonly platform: string;
  readonly kernel: string;
  /** What TCP uses unless told otherwise: BBR paces what is sent, which costs CPU. */
  readonly congestionControl: string;
  readonly nodeVersion: string;
  readonly opensslVersion: string;
}

export function describeMachine(): Machine {
  return {
    cores: availableParallelism(),
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
  const { congestionControl: tcp, cores, cpuModel, nodeVersion, platform: system } = machine;
  return `${cores} cores (${cpuModel}), ${system}, TCP ${tcp}, Node ${nodeVersion}`;
}

function congestionControl(): string {
  try {
    return readFileSync("/proc/sys/net/ipv4/tcp_congestion_control", "latin1").trim();
  } catch {
    return "unknown";
  }
}
