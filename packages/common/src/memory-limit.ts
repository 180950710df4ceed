import { totalmem } from "node:os";
import { constrainedMemory } from "node:process";

/** What this process may use: its cgroup's limit if it has one, otherwise the machine's memory. */
export function memoryLimitBytes(): number {
  const limitBytes = constrainedMemory();
  // Without a limit Node says 0, or what the kernel writes for "none".
  return limitBytes > 0 && limitBytes < totalmem() ? limitBytes : totalmem();
}
