import { readFileSync } from "node:fs";

/** How many files a process started from here may have open; Node raises its soft limit to that. */
export function fdLimit(): number {
  try {
    const limits = readFileSync("/proc/self/limits", "latin1");
    const hard = /^Max open files\s+\S+\s+(\S+)/m.exec(limits)?.[1];
    return hard === undefined || hard === "unlimited" ? Infinity : Number(hard);
  } catch {
    return Infinity;
  }
}
