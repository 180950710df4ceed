import { systemClock } from "@reachback/common";
import { runCli } from "./cli.ts";

process.exitCode = await runCli({
  argv: process.argv.slice(2),
  env: process.env,
  cwd: process.cwd(),
  clock: systemClock,
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
});
