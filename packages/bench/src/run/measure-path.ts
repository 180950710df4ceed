import { readUsage, resetPeakMemory } from "../processes/process-usage.ts";
import type { Lab } from "../subjects/lab.ts";
import type { Subject } from "../subjects/subject.ts";
import type { ProcessSample } from "./sample.ts";

/** What happened while something was done over a path. */
export interface PathMeasurement<Result> {
  readonly result: Result;
  readonly processes: readonly ProcessSample[];
  /** Of all processes of the path; `undefined` if it has none, or they cannot be read. */
  readonly cpuSeconds: number | undefined;
  readonly peakBytes: number | undefined;
  readonly harnessCpuSeconds: number;
}

/** Do something, and see what it costs the processes of `subject`. */
export async function measurePath<Result>(
  lab: Lab,
  subject: Subject,
  action: () => Promise<Result>,
): Promise<PathMeasurement<Result>> {
  for (const { pid } of subject.processes) resetPeakMemory(pid);
  const before = subject.processes.map(({ pid }) => readUsage(pid));
  const harnessBefore = cpuSecondsOf(lab.harnessPids);
  const result = await action();
  const harnessAfter = cpuSecondsOf(lab.harnessPids);

  const processes: ProcessSample[] = [];
  for (const [index, { name, pid }] of subject.processes.entries()) {
    const earlier = before[index];
    const now = readUsage(pid);
    if (earlier === undefined || now === undefined) continue;
    processes.push({
      name,
      cpuSeconds: now.cpuSeconds - earlier.cpuSeconds,
      peakBytes: now.peakBytes,
    });
  }
  const isReadable = processes.length > 0;
  return {
    result,
    processes,
    cpuSeconds: isReadable ? sum(processes.map(({ cpuSeconds }) => cpuSeconds)) : undefined,
    peakBytes: isReadable ? sum(processes.map(({ peakBytes }) => peakBytes)) : undefined,
    harnessCpuSeconds: harnessAfter - harnessBefore,
  };
}

/** Anonymous memory of each of the subject's processes, by name; empty if it cannot be read. */
export function anonymousBytesOf(subject: Subject): Map<string, number> {
  const bytes = new Map<string, number>();
  for (const { name, pid } of subject.processes) {
    const usage = readUsage(pid);
    if (usage !== undefined) bytes.set(name, (bytes.get(name) ?? 0) + usage.anonymousBytes);
  }
  return bytes;
}

export function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

function cpuSecondsOf(pids: readonly number[]): number {
  return sum(pids.map((pid) => readUsage(pid)?.cpuSeconds ?? 0));
}

/** `values` without those that could not be measured. */
export function measuredValues(
  values: Readonly<Record<string, number | undefined>>,
): Record<string, number> {
  const known: Record<string, number> = {};
  for (const [id, value] of Object.entries(values)) if (value !== undefined) known[id] = value;
  return known;
}
