import { readdirSync } from "node:fs";

/** What keeps a process's event loop busy, by kind: sockets, listeners, timers; and open files. */
export type Handles = Readonly<Record<string, number>>;

const HANDLE_KINDS = /Timeout|Socket|Server|Pipe|TLS/;

/** Where Linux and macOS list the files that a process has open. */
const OPEN_FILES = "/dev/fd";

/** Those of this process. */
export function openHandles(): Handles {
  const handles: Record<string, number> = { files: readdirSync(OPEN_FILES).length };
  for (const kind of process.getActiveResourcesInfo().sort()) {
    if (HANDLE_KINDS.test(kind)) handles[kind] = (handles[kind] ?? 0) + 1;
  }
  return handles;
}
