import type { CliHost } from "../cli-host.ts";

/** Colours for the terminal, or none. Applied after padding: colours have no width. */
export interface Paint {
  good(text: string): string;
  bad(text: string): string;
  faint(text: string): string;
}

export const PLAIN: Paint = { good: same, bad: same, faint: same };

const COLOURS: Paint = {
  good: (text) => `\u001b[32m${text}\u001b[39m`,
  bad: (text) => `\u001b[31m${text}\u001b[39m`,
  faint: (text) => `\u001b[2m${text}\u001b[22m`,
};

/** Colours only where a person looks at a terminal and has not asked for none (no-color.org). */
export function paintFor({
  env,
  stdoutIsTerminal,
}: Pick<CliHost, "env" | "stdoutIsTerminal">): Paint {
  const isUnwanted = isSet(env["NO_COLOR"]) || isSet(env["CI"]) || env["TERM"] === "dumb";
  return stdoutIsTerminal && !isUnwanted ? COLOURS : PLAIN;
}

function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== "";
}

function same(text: string): string {
  return text;
}
