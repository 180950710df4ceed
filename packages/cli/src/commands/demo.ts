import type { CliCommand } from "../cli-command.ts";
import { runDemo } from "../demo/run-demo.ts";

/** `reachback demo`: the whole product at work on this machine. */
export const demoCommand: CliCommand = {
  declare: (parser, host, run) =>
    parser.command(
      "demo",
      "See it work: a server, two agents, and what an apiserver does with them, on this machine",
      (options) =>
        options
          .option("keep", {
            boolean: true,
            default: false,
            describe: "Leave everything running, and print requests to try with curl",
          })
          .example("$0 demo --keep", "Look around afterwards: requests, logs, metrics")
          .epilogue(EXPLANATION),
      ({ keep }) => run(() => runDemo({ keep }, host)),
    ),
};

/** One paragraph, which the parser breaks into lines. */
const EXPLANATION = [
  "It starts processes that listen on loopback only, on free ports from 20000 to 32000, with",
  "certificates made for the occasion in a temporary folder. When it ends, or is stopped by Ctrl-C,",
  "it leaves nothing behind. The exit code is 0 only if everything was as it must be; otherwise the",
  "output says what was expected, what came instead, and what the processes concerned have logged.",
].join(" ");
