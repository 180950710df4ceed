import yargs from "yargs";
import { OptionsProblem } from "../options.ts";

export interface SoakOptions {
  readonly minutes: number;
  readonly connectionsPerSecond: number;
  readonly seed: number;
  /** Worker processes of the server. */
  readonly workers: number;
}

/** @returns what to print instead of running, for `--help`. @throws {OptionsProblem} */
export async function parseSoakOptions(argv: readonly string[]): Promise<SoakOptions | string> {
  let text = "";
  const given = await yargs()
    .scriptName("reachback-bench soak")
    .usage(
      "$0 [options]\n\n" +
        "Keeps the real executables busy with connections that come, go and are cut while agents are\n" +
        "killed, and checks that nothing of it stays: no entry, no handle, no memory.",
    )
    .option("minutes", { number: true, default: 30, describe: "How long; 3 at least" })
    .option("rate", {
      number: true,
      default: 300,
      describe: "Connections per second, between rests",
    })
    .option("seed", { number: true, default: 1, describe: "Of what is random in it" })
    .option("workers", {
      number: true,
      default: 1,
      describe: "Worker processes of the server (Linux only if more than 1)",
    })
    .alias("help", "h")
    .version(false)
    .detectLocale(false)
    .strict()
    .demandCommand(0, 0, "", "takes no arguments, only options")
    .exitProcess(false)
    .fail((problem, error: unknown) => {
      throw new OptionsProblem(error instanceof Error ? error.message : problem);
    })
    .parseAsync([...argv], {}, (_error, _arguments, output) => {
      text = output;
    });
  if (text !== "") return text;
  const { minutes, rate, seed, workers } = given;
  if (!(minutes >= 3)) throw new OptionsProblem(`--minutes ${minutes}: not a number of 3 or more`);
  if (!(rate > 0)) throw new OptionsProblem(`--rate ${rate}: not a number above 0`);
  if (!Number.isSafeInteger(seed)) throw new OptionsProblem(`--seed ${seed}: not a whole number`);
  if (!(Number.isSafeInteger(workers) && workers >= 1)) {
    throw new OptionsProblem(`--workers ${workers}: not a whole number of 1 or more`);
  }
  return { minutes, connectionsPerSecond: rate, seed, workers };
}
