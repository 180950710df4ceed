import { systemClock } from "@reachback/common";
import { runCli } from "./cli.ts";
import type { StopSignal } from "./cli-host.ts";

process.exitCode = await runCli({
  argv: process.argv.slice(2),
  env: process.env,
  cwd: process.cwd(),
  pid: process.pid,
  nodePath: process.execPath,
  clock: systemClock,
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
  stdoutIsTerminal: process.stdout.isTTY,
  onStop: (listener) => {
    const signals: readonly StopSignal[] = ["SIGHUP", "SIGINT", "SIGTERM"];
    const onBrokenPipe = () => {
      listener("SIGPIPE");
    };
    for (const signal of signals) process.on(signal, listener);
    process.stdout.on("error", onBrokenPipe);
    return () => {
      for (const signal of signals) process.off(signal, listener);
      process.stdout.off("error", onBrokenPipe);
    };
  },
});
