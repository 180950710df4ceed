import { readFileSync, readdirSync } from "node:fs";

/** All living processes below `pid`, parents before their children. Empty where there is no /proc. */
export function descendantsOf(pid: number): number[] {
  const childrenByParent = new Map<number, number[]>();
  for (const entry of listProcesses()) {
    const parent = parentOf(entry);
    if (parent === undefined) continue;
    const siblings = childrenByParent.get(parent);
    if (siblings === undefined) childrenByParent.set(parent, [entry]);
    else siblings.push(entry);
  }
  const found: number[] = [];
  for (let wanted = [pid]; wanted.length > 0;) {
    wanted = wanted.flatMap((parent) => childrenByParent.get(parent) ?? []);
    found.push(...wanted);
  }
  return found;
}

function listProcesses(): number[] {
  try {
    return readdirSync("/proc")
      .map(Number)
      .filter((pid) => Number.isInteger(pid));
  } catch {
    return [];
  }
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name before it is in parentheses and may hold anything.
    const [, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(parent);
  } catch {
    return undefined;
  }
}
