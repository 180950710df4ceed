import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, openSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import type { CliHost } from "../cli-host.ts";
import type { LogRecord } from "./log-record.ts";
import { logRecordFrom } from "./log-record.ts";

export interface ChildProgramSpec {
  /** What the demo calls it, in its report and in names of files. */
  readonly name: string;
  readonly scriptPath: string;
  readonly flags: readonly string[];
  /** Its output is appended here. */
  readonly logPath: string;
}

/**
 * Loaded into each child: it ends when the channel to its parent closes, in whatever way the parent
 * ends, even killed. The programs themselves know nothing of parents.
 */
const END_WITH_PARENT = `data:text/javascript,${encodeURIComponent(
  'process.once("disconnect", () => process.exit()); process.channel.unref();',
)}`;

/** How many of its last lines are kept in memory. */
const LINES_KEPT = 500;

/** A Node program that runs as a child of this process, and no longer than it. */
export class ChildProgram {
  readonly name: string;
  readonly logPath: string;
  readonly #child: ChildProcess;
  readonly #logFile: number;
  readonly #lines: string[] = [];
  #lineCount = 0;
  readonly #watchers = new Set<(record: LogRecord) => void>();
  #ending: string | undefined;

  /** Resolves with how it ended, e.g. `exit code 1`, once all its output is there. */
  readonly ended: Promise<string>;

  constructor(spec: ChildProgramSpec, host: Pick<CliHost, "env" | "nodePath">) {
    this.name = spec.name;
    this.logPath = spec.logPath;
    this.#logFile = openSync(spec.logPath, "a", 0o600);
    this.#child = spawn(
      host.nodePath,
      ["--import", END_WITH_PARENT, spec.scriptPath, ...spec.flags],
      { env: host.env, stdio: ["ignore", "pipe", "pipe", "ipc"] },
    );
    for (const output of [this.#child.stdout, this.#child.stderr]) {
      if (output === null) continue;
      createInterface({ input: output }).on("line", (line) => {
        this.#logged(line);
      });
    }
    this.ended = new Promise((resolve) => {
      this.#child.once("error", (error) => {
        this.#logged(error.message);
      });
      this.#child.once("close", (code, signal) => {
        this.#ending = signal === null ? `exit code ${code ?? "unknown"}` : `signal ${signal}`;
        closeSync(this.#logFile);
        resolve(this.#ending);
      });
    });
  }

  /** How it ended, or `undefined` while it runs. */
  get ending(): string | undefined {
    return this.#ending;
  }

  /** How much it has logged; what comes later is `since` then. */
  get lineCount(): number {
    return this.#lineCount;
  }

  /** Its last lines, oldest first. */
  lastLines(count: number): string[] {
    return this.#lines.slice(-count);
  }

  /**
   * The first record that `matches`, among those there are from line `since` on and those to come.
   *
   * @throws {Error} if the program ends without it; when `signal` aborts, its reason.
   */
  async waitForLog(
    matches: (record: LogRecord) => boolean,
    signal: AbortSignal,
    since = 0,
  ): Promise<LogRecord> {
    signal.throwIfAborted();
    const firstKept = this.#lineCount - this.#lines.length;
    const known = this.#lines.slice(Math.max(since - firstKept, 0)).map(logRecordFrom);
    const found = known.find(matches);
    if (found !== undefined) return found;
    return new Promise((resolve, reject) => {
      const watcher = (record: LogRecord) => {
        if (!matches(record)) return;
        stopWaiting();
        resolve(record);
      };
      const onAbort = () => {
        stopWaiting();
        reject(signal.reason as Error);
      };
      const stopWaiting = () => {
        this.#watchers.delete(watcher);
        signal.removeEventListener("abort", onAbort);
      };
      this.#watchers.add(watcher);
      signal.addEventListener("abort", onAbort);
      void this.ended.then((ending) => {
        stopWaiting();
        reject(new Error(`${this.name} ended with ${ending}`));
      });
    });
  }

  /** Wait until it says that it has started. */
  async started(signal: AbortSignal): Promise<void> {
    await this.waitForLog(({ event }) => event === "program.started", signal);
  }

  /** End it at once; resolves when it is gone. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.ended;
  }

  #logged(line: string): void {
    writeSync(this.#logFile, `${line}\n`);
    this.#lineCount++;
    this.#lines.push(line);
    if (this.#lines.length > LINES_KEPT) this.#lines.shift();
    const record = logRecordFrom(line);
    for (const watcher of [...this.#watchers]) watcher(record);
  }
}
