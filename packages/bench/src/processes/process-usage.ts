import { readFileSync, readdirSync, writeFileSync } from "node:fs";

/** What a process has used so far, and holds now. */
export interface ProcessUsage {
  readonly cpuSeconds: number;
  /** Largest resident size since {@link resetPeakMemory}. */
  readonly peakBytes: number;
  /** Resident memory that is backed by no file: heaps, buffers, stacks. */
  readonly anonymousBytes: number;
}

/** `undefined` if the process is gone, or the system has no /proc. */
export function readUsage(pid: number): ProcessUsage | undefined {
  try {
    const cpuSeconds = readCpuSeconds(pid);
    if (cpuSeconds === undefined) return undefined;
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    return {
      cpuSeconds,
      peakBytes: kibField(status, "VmHWM"),
      anonymousBytes: anonymousBytes(pid) ?? kibField(status, "RssAnon"),
    };
  } catch {
    return undefined;
  }
}

/** {@link ProcessUsage.cpuSeconds} alone, which is much cheaper. */
export function readCpuSeconds(pid: number): number | undefined {
  try {
    return Math.max(scheduledSeconds(pid), accountedSeconds(pid));
  } catch {
    return undefined;
  }
}

/** Let {@link ProcessUsage.peakBytes} start over. Without effect on processes of others. */
export function resetPeakMemory(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, "5");
  } catch {
    // The peak then is that of the process's whole life.
  }
}

const NANOSECONDS = 1e9;

/** The scheduler's own count, in nanoseconds, of the threads there are. */
function scheduledSeconds(pid: number): number {
  let nanoseconds = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      const [runTime] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "latin1").split(" ");
      nanoseconds += Number(runTime);
    } catch {
      // The thread has ended, or the kernel does not count.
    }
  }
  return nanoseconds / NANOSECONDS;
}

const TICKS_PER_SECOND = 100;

/** Coarser, but with the threads that have ended. */
function accountedSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

function anonymousBytes(pid: number): number | undefined {
  try {
    return kibField(readFileSync(`/proc/${pid}/smaps_rollup`, "latin1"), "Anonymous");
  } catch {
    return undefined;
  }
}

function kibField(text: string, name: string): number {
  const value = new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1];
  return value === undefined ? 0 : Number(value) * 1024;
}
