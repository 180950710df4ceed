import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BenchHost } from "./bench-host.ts";
import { ChildProcesses } from "./processes/child-processes.ts";

/** Lend `work` a folder and the right to start processes; both are gone when it is done. */
export async function withWorkshop<Result>(
  host: BenchHost,
  work: (workshop: { folder: string; children: ChildProcesses }) => Promise<Result>,
): Promise<Result> {
  const children = new ChildProcesses();
  const folder = mkdtempSync(join(tmpdir(), "reachback-bench-"));
  const cleanUp = () => {
    children.killAll();
    rmSync(folder, { recursive: true, force: true });
  };
  host.onExit(cleanUp);
  try {
    return await work({ folder, children });
  } finally {
    cleanUp();
  }
}
