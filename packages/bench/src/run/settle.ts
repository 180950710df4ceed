import { setTimeout } from "node:timers/promises";
import { readCpuSeconds } from "../processes/process-usage.ts";
import { subjectsOf } from "../subjects/lab.ts";
import type { Lab } from "../subjects/lab.ts";
import { sum } from "./measure-path.ts";

const INTERVAL_MS = 100;

/** What all processes together may use of a core at rest: timers, pings. */
const MAX_SHARE_AT_REST = 0.05;

const LIMIT_MS = 3_000;

/**
 * Wait until whatever was measured before is at rest: Node collects garbage for a while when a transfer is
 * over, and whoever came next would pay for that with caches and cores. Gives up after three seconds.
 *
 * @param cpuSeconds - What all of them have used so far.
 */
export async function settle(
  cpuSeconds: () => number,
  sleep: (ms: number) => Promise<void>,
): Promise<void> {
  let before = cpuSeconds();
  for (let waitedMs = 0; waitedMs < LIMIT_MS; waitedMs += INTERVAL_MS) {
    await sleep(INTERVAL_MS);
    const now = cpuSeconds();
    if (now - before <= (MAX_SHARE_AT_REST * INTERVAL_MS) / 1000) return;
    before = now;
  }
}

/** {@link settle} for all processes of `lab`. */
export async function settleLab(lab: Lab): Promise<void> {
  const ofPaths = subjectsOf(lab).flatMap(({ processes }) => processes.map(({ pid }) => pid));
  const pids = [...lab.harnessPids, ...ofPaths];
  await settle(
    () => sum(pids.map((pid) => readCpuSeconds(pid) ?? 0)),
    (ms) => setTimeout(ms),
  );
}
