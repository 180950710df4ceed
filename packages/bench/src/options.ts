import yargs from "yargs";
import { FULL_PLAN, QUICK_PLAN, scaledPlan } from "./plan.ts";
import type { Plan } from "./plan.ts";
import type { Scenario } from "./scenarios/scenario.ts";
import { SCENARIOS, defaultScenarios } from "./scenarios/scenarios.ts";
import type { PeerOptions } from "./subjects/peer.ts";
import { SUBJECT_IDS } from "./subjects/subject.ts";
import type { SubjectId } from "./subjects/subject.ts";

/** What a run of the bench is to do. */
export interface BenchOptions {
  readonly scenarios: readonly Scenario[];
  readonly subjectIds: readonly SubjectId[];
  /** What ratios are to; `undefined` for what each scenario has. */
  readonly referenceId: SubjectId | undefined;
  readonly plan: Plan;
  /** Whether the processes of both ends use all cores, instead of half of them each. */
  readonly endsShareCores: boolean;
  /** A proxy that is already running; `undefined` for none. */
  readonly peer: PeerOptions | undefined;
  /** Files to write; `undefined` for none. */
  readonly jsonPath: string | undefined;
  readonly svgPath: string | undefined;
}

export type ParsedOptions =
  | { readonly kind: "run"; readonly options: BenchOptions }
  /** Help or version, which were asked for. */
  | { readonly kind: "text"; readonly text: string };

/** The arguments make no sense; the message says why. */
export class OptionsProblem extends Error {}

const HELP_WIDTH = 100;

/** @throws {OptionsProblem} */
export async function parseOptions(
  argv: readonly string[],
  version: string,
): Promise<ParsedOptions> {
  let text = "";
  const given = await parser(version).parseAsync([...argv], {}, (_error, _arguments, output) => {
    text = output;
  });
  if (text !== "") return { kind: "text", text };

  const { quick, scenario, subject, reference, rounds, scale } = given;
  if (given["peer-pids"] !== undefined && given["peer-socket"] === undefined) {
    throw new OptionsProblem("--peer-pids needs --peer-socket");
  }
  const peer =
    given["peer-socket"] === undefined
      ? undefined
      : { socketPath: given["peer-socket"], pids: pidsFrom(given["peer-pids"] ?? "") };
  const subjectIds = (chosen("--subject", subject, SUBJECT_IDS, (id) => id) ?? SUBJECT_IDS).filter(
    (id) => id !== "peer" || peer !== undefined,
  );
  return {
    kind: "run",
    options: {
      scenarios:
        chosen("--scenario", scenario, SCENARIOS, ({ name }) => name) ?? defaultScenarios(quick),
      subjectIds,
      referenceId: reference === undefined ? undefined : referenceFrom(reference, subjectIds),
      plan: planFrom(quick, rounds, scale),
      endsShareCores: given["share-cores"],
      peer,
      jsonPath: given.json,
      svgPath: given.svg,
    },
  };
}

function parser(version: string) {
  return yargs()
    .scriptName("reachback-bench")
    .usage(
      "$0 [options]\n\n" +
        "Measures the real executables beside other ways to the same endpoint, in one run.\n\n" +
        `Scenarios:\n${SCENARIOS.map(({ name, summary }) => `  ${name.padEnd(9)}${summary}`).join("\n")}`,
    )
    .option("quick", {
      boolean: true,
      default: false,
      describe: "Less of everything, in under two minutes: rough figures",
    })
    .option("scenario", {
      ...listFlag(),
      describe: "Only this; repeated or with commas",
    })
    .option("subject", {
      ...listFlag(),
      describe: `Only this path; repeated or with commas: ${SUBJECT_IDS.join(", ")}`,
    })
    .option("reference", {
      ...textFlag(),
      describe: "The path that ratios are to, instead of what each scenario has",
    })
    .option("rounds", {
      ...textFlag(),
      describe: `Measurements of each figure (default ${FULL_PLAN.rounds}, with --quick ${QUICK_PLAN.rounds})`,
    })
    .option("scale", {
      ...textFlag(),
      describe: "Multiply sizes and durations by this, to try something out",
    })
    .option("share-cores", {
      boolean: true,
      default: false,
      describe: "Let both ends of the link use all cores, instead of half of them each",
    })
    .option("json", { ...textFlag(), describe: "Write all samples and results to this file" })
    .option("svg", { ...textFlag(), describe: "Write a chart to this file" })
    .option("peer-socket", {
      ...textFlag(),
      describe: "Unix socket of another proxy to measure, which speaks HTTP CONNECT",
    })
    .option("peer-pids", {
      ...textFlag(),
      describe: "Its processes, with commas: whose CPU time and memory to count",
    })
    .alias("help", "h")
    .version(version)
    .wrap(HELP_WIDTH)
    .detectLocale(false)
    .parserConfiguration({
      "boolean-negation": false,
      "camel-case-expansion": false,
      "greedy-arrays": false,
    })
    .strict()
    .demandCommand(0, 0, "", "takes no arguments, only options")
    .exitProcess(false)
    .fail((problem, error: unknown) => {
      throw new OptionsProblem(error instanceof Error ? error.message : problem);
    });
}

/** The last one wins; yargs would make a list of them. */
function textFlag() {
  const last = (given: string | readonly string[]) =>
    typeof given === "string" ? given : given.at(-1);
  return { string: true, requiresArg: true, coerce: last } as const;
}

function listFlag() {
  return { array: true, string: true, requiresArg: true } as const;
}

/** The items of `all` that are named, in the order of `all`; `undefined` if none is named. */
function chosen<Item>(
  flag: string,
  given: readonly string[] | undefined,
  all: readonly Item[],
  nameOf: (item: Item) => string,
): readonly Item[] | undefined {
  if (given === undefined) return undefined;
  const wanted = new Set(given.flatMap((names) => names.split(",")));
  const known = all.map(nameOf);
  for (const name of wanted) {
    if (known.includes(name)) continue;
    throw new OptionsProblem(`${flag} ${name}: there is only ${known.join(", ")}`);
  }
  return all.filter((item) => wanted.has(nameOf(item)));
}

function referenceFrom(name: string, subjectIds: readonly SubjectId[]): SubjectId {
  const id = subjectIds.find((subjectId) => subjectId === name);
  if (id !== undefined) return id;
  throw new OptionsProblem(`--reference ${name}: there is only ${subjectIds.join(", ")}`);
}

function planFrom(isQuick: boolean, rounds: string | undefined, scale: string | undefined): Plan {
  const plan = isQuick ? QUICK_PLAN : FULL_PLAN;
  const scaled = scale === undefined ? plan : scaledPlan(plan, positiveNumber("--scale", scale));
  if (rounds === undefined) return scaled;
  const count = positiveNumber("--rounds", rounds);
  if (!Number.isInteger(count)) throw new OptionsProblem(`--rounds ${rounds}: not a whole number`);
  return {
    ...scaled,
    // So many were asked for, however long they take.
    budgetMs: undefined,
    rounds: count,
    idleRounds: count,
    stalledRounds: count,
    besideRounds: count,
    delayRounds: count,
  };
}

function positiveNumber(flag: string, text: string): number {
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw new OptionsProblem(`${flag} ${text}: not a number above 0`);
}

function pidsFrom(list: string): number[] {
  return list
    .split(",")
    .filter((item) => item !== "")
    .map((item) => {
      if (/^[1-9][0-9]*$/.test(item)) return Number(item);
      throw new OptionsProblem(`--peer-pids ${list}: ${item} is no process id`);
    });
}
