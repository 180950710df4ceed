import { constants } from "node:os";
import { isRoleName, runRole } from "./processes/role-main.ts";

const [first = "", ...others] = process.argv.slice(2);

// The bench's own processes are this executable too, started with their role as the argument.
if (process.send !== undefined && isRoleName(first)) {
  runRole(first);
} else {
  const isSoak = first === "soak";
  const run = isSoak
    ? (await import("./soak/soak.ts")).runSoak
    : (await import("./bench.ts")).runBench;
  const { stderr } = process;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => process.exit(128 + constants.signals[signal]));
  }
  process.exitCode = await run({
    argv: isSoak ? others : process.argv.slice(2),
    cwd: process.cwd(),
    stdout: (text) => process.stdout.write(text),
    stderr: (text) => stderr.write(text),
    terminal: stderr.isTTY
      ? {
          write: (text) => stderr.write(text),
          get columns() {
            // Some terminals do not know, and say 0.
            return stderr.columns > 0 ? stderr.columns : 80;
          },
        }
      : undefined,
    onExit: (listener) => {
      process.on("exit", listener);
    },
  });
}
