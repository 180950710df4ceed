import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** The ends of the link, which in a cluster are two machines: client and server, agent and endpoint. */
export const ENDS = ["near", "far"] as const;
export type End = (typeof ENDS)[number];

/** The cores that the processes of each end keep to, as `taskset --cpu-list` takes them. */
export type EndCores = Readonly<Record<End, string>>;

/**
 * Half of the cores that this process may use for each end; `undefined` if there is one only, or no `taskset`.
 */
export function endCores(): EndCores | undefined {
  try {
    const status = readFileSync("/proc/self/status", "latin1");
    const split = splitCores(/^Cpus_allowed_list:\s+(\S+)/m.exec(status)?.[1] ?? "");
    for (const end of ENDS)
      if (split !== undefined) execFileSync(...onCores(split[end], "true", []));
    return split;
  } catch {
    return undefined;
  }
}

/** How to start `command` so that it keeps to `cores`. It has the pid of what is started. */
export function onCores(
  cores: string | undefined,
  command: string,
  args: readonly string[],
): [command: string, args: readonly string[]] {
  if (cores === undefined) return [command, args];
  return ["taskset", ["--cpu-list", cores, command, ...args]];
}

/** @param list - As {@link listedCores} takes it. */
export function splitCores(list: string): EndCores | undefined {
  const cores = listedCores(list);
  if (cores.length < 2) return undefined;
  const half = cores.length >> 1;
  return { near: cores.slice(0, half).join(","), far: cores.slice(half).join(",") };
}

/** @param list - Cores and ranges of them, as Linux lists them: `0-3,8`. */
export function listedCores(list: string): number[] {
  return list.split(",").flatMap((range) => {
    const [first = NaN, last = first] = range.split("-").map(Number);
    return Array.from({ length: last - first + 1 || 0 }, (_, index) => first + index);
  });
}
