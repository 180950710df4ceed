import { once } from "node:events";
import { createServer } from "node:http";
import type { Server as NetServer } from "node:net";
import {
  intType,
  memoryLimitBytes,
  packageVersion,
  startProgram,
  stringType,
  systemFileExists,
  systemRandom,
} from "@reachback/common";
import type { FlagSpec, FlagTable, ParsedFlags } from "@reachback/common";

/** Writes a line to standard output. */
export type Log = (event: string, fields?: Readonly<Record<string, unknown>>) => void;

/** What a program has started. */
export interface Running {
  stop(): void;
}

export interface DemoProgram<Table extends FlagTable> {
  /** E.g. `demo-kubelet`. */
  readonly name: string;
  readonly summary: string;
  readonly examples: string;
  readonly flags: Table;
  /** Resolves with what runs until a signal comes, or with the exit code of what is over by then. */
  start(flags: ParsedFlags<Table>["values"], log: Log): Promise<Running | number>;
}

/**
 * Run a program of the demo until it gets SIGTERM or SIGINT. A flag that is not given is taken from
 * `DEMO_<NAME>` in the environment. Log lines are JSON, on standard output.
 */
export async function runProgram<Table extends FlagTable>(
  program: DemoProgram<Table>,
): Promise<void> {
  const log: Log = (event, fields = {}) => {
    const line = { time: new Date().toISOString(), program: program.name, event, ...fields };
    process.stdout.write(`${JSON.stringify(line)}\n`);
  };
  process.exitCode = await startProgram(
    {
      name: program.name,
      summary: program.summary,
      examples: program.examples,
      version: packageVersion(import.meta.url),
      flags: withEnvironment(program.flags),
      resolve: (parsed: ParsedFlags<Table>) => parsed.values,
    },
    {
      argv: process.argv.slice(2),
      env: process.env,
      random: systemRandom,
      fileExists: systemFileExists,
      memoryLimitBytes,
      stdout: (text) => process.stdout.write(text),
      stderr: (text) => process.stderr.write(text),
    },
    async (flags) => {
      const running = await program.start(flags, log);
      if (typeof running === "number") return running;
      const stop = (signal: string) => {
        log("program.stopped", { signal });
        running.stop();
        process.exit(0);
      };
      process.once("SIGTERM", stop);
      process.once("SIGINT", stop);
      log("program.started", { pid: process.pid });
      return 0;
    },
  );
}

/** The address that every program listens on. */
export const BIND_ADDRESS: FlagSpec<string> = {
  type: stringType,
  default: "127.0.0.1",
  group: "Listening",
  placeholder: "address",
  help: "Address to listen on; 0.0.0.0 for all.",
};

/** A flag for a port. */
export function portFlag(port: number, help: string): FlagSpec<number> {
  return { type: intType, default: port, group: "Listening", placeholder: "port", help };
}

/** For {@link startHealth}. */
export function healthPortFlag(port: number): FlagSpec<number> {
  return portFlag(port, "Port for GET /healthz over plain HTTP; 0 for none.");
}

/** A flag for a PEM file. */
export function fileFlag(group: string, path: string, help: string): FlagSpec<string> {
  return { type: stringType, default: path, group, placeholder: "file", help };
}

/** Answer GET /healthz with "ok" on a port of its own. */
export async function startHealth(port: number, host: string): Promise<Running> {
  if (port === 0) return { stop: () => undefined };
  const server = createServer((request, response) => {
    response.statusCode = request.url === "/healthz" ? 200 : 404;
    response.end(response.statusCode === 200 ? "ok" : "404 page not found\n");
  });
  await listen(server, port, host);
  return { stop: () => server.close() };
}

/** @throws {Error} naming the address, if it cannot be had. */
export async function listen(server: NetServer, port: number, host: string): Promise<void> {
  server.listen({ port, host });
  await once(server, "listening");
}

function withEnvironment<Table extends FlagTable>(flags: Table): Table {
  const entries = Object.entries(flags).map(([name, spec]) => {
    const env = `DEMO_${name.toUpperCase().replaceAll("-", "_")}`;
    return [name, { ...spec, env }];
  });
  return Object.fromEntries(entries) as Table;
}
