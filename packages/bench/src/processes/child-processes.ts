import { fork, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onCores } from "./end-cores.ts";
import { descendantsOf } from "./process-tree.ts";

/** The bench's executable, which is also that of its own processes. */
const BENCH = fileURLToPath(new URL("../../bin/reachback-bench.js", import.meta.url));

const EXIT_TIMEOUT_MS = 5_000;

/** How much of what a process last said is kept for error messages. */
const TAIL_BYTES = 4_000;

/** A process that the bench has started. */
export interface Child {
  readonly pid: number;
  readonly process: ChildProcess;
  /** The end of what it wrote to stderr. */
  stderrTail(): string;
  /** How it ended, or `undefined` while it runs. */
  exitText(): string | undefined;
}

/** Every process the bench has started, so that none is left behind. */
export class ChildProcesses {
  readonly #running = new Set<Child>();

  /**
   * @param cores - What it keeps to; `undefined` for all.
   * @throws {Error} if there is no such program; with `cores` it ends at once and says so.
   */
  spawn(command: string, args: readonly string[], cores?: string): Promise<Child> {
    const stdio = ["ignore", "ignore", "pipe"] as const;
    return this.#adopt(spawn(...onCores(cores, command, args), { stdio: [...stdio] }), command);
  }

  /** Start the bench's executable once more; `cores` as for {@link spawn}. */
  fork(args: readonly string[], cores?: string): Promise<Child> {
    const stdio = ["ignore", "ignore", "pipe", "ipc"] as const;
    const [execPath, execArgv] = onCores(cores, process.execPath, process.execArgv);
    const options = { stdio: [...stdio], execPath, execArgv: [...execArgv] };
    return this.#adopt(fork(BENCH, args, options), "bench");
  }

  /** Start a program of Node's, with a channel to it. */
  forkProgram(path: string, args: readonly string[], execArgv: readonly string[]): Promise<Child> {
    const stdio = ["ignore", "ignore", "pipe", "ipc"] as const;
    return this.#adopt(fork(path, args, { stdio: [...stdio], execArgv: [...execArgv] }), path);
  }

  /** End one, and whatever it has started itself, and wait until it is gone. */
  async stop(child: Child): Promise<void> {
    if (!this.#running.has(child)) return;
    const exited = once(child.process, "exit", { signal: AbortSignal.timeout(EXIT_TIMEOUT_MS) });
    killTree(child.pid);
    await exited;
  }

  /** At once and without waiting, for a bench that is about to exit. */
  killAll(): void {
    for (const child of this.#running) killTree(child.pid);
  }

  async #adopt(process: ChildProcess, name: string): Promise<Child> {
    await once(process, "spawn");
    const { pid } = process;
    if (pid === undefined) throw new Error(`${name} has no pid`);
    let tail = "";
    process.stderr?.setEncoding("utf8").on("data", (text: string) => {
      tail = (tail + text).slice(-TAIL_BYTES);
    });
    let exitText: string | undefined;
    const child: Child = {
      pid,
      process,
      stderrTail: () => tail.trim(),
      exitText: () => exitText,
    };
    this.#running.add(child);
    process.on("exit", (code, signal) => {
      exitText = signal ?? `exit code ${code ?? 0}`;
      this.#running.delete(child);
    });
    return child;
  }
}

function killTree(pid: number): void {
  for (const each of [...descendantsOf(pid), pid]) {
    try {
      process.kill(each, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }
}
