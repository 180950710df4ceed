import { systemClock } from "@reachback/common";
import { runCli } from "../src/cli.ts";

/** What a run of the command left on its streams. */
export interface CliRun {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Run `reachback` in this process. */
export async function runReachback(argv: readonly string[], cwd = "/nowhere"): Promise<CliRun> {
  let stdout = "";
  let stderr = "";
  const exitCode = await runCli({
    argv,
    env: {},
    cwd,
    pid: process.pid,
    nodePath: process.execPath,
    clock: systemClock,
    stdout: (text) => {
      stdout += text;
    },
    stderr: (text) => {
      stderr += text;
    },
    stdoutIsTerminal: false,
    onStop: () => () => undefined,
  });
  return { exitCode, stdout, stderr };
}
