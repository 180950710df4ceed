import { spawn } from "node:child_process";
import type { ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { kill } from "node:process";
import type { Readable } from "node:stream";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";

/** What npm links into `node_modules/.bin`. They run the build. */
export type ExecutableName = "reachback" | "reachback-server" | "reachback-agent";

/** The top folder of this checkout. */
export const CHECKOUT = fileURLToPath(new URL("../../", import.meta.url));

export interface ExecutableOptions {
  /** Added to `PATH`, which is all that it has of this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** @defaultValue the checkout */
  readonly cwd?: string;
  /** Whether signals are for whatever it has started, too. @defaultValue false */
  readonly isGroup?: boolean;
}

/** How a program ended, and all that it had written. */
export interface EndedProgram {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program of this checkout, or any other, as a process of its own. */
export class RunningProgram {
  readonly ended: Promise<EndedProgram>;
  readonly #child: ChildProcessByStdio<null, Readable, Readable>;
  readonly #isGroup: boolean;
  #stdout = "";
  #stderr = "";
  #hasEnded = false;
  readonly #waiters = new Set<() => void>();

  constructor(command: string, args: readonly string[], options: ExecutableOptions = {}) {
    const { env = {}, cwd = CHECKOUT, isGroup = false } = options;
    this.#isGroup = isGroup;
    this.#child = spawn(command, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env["PATH"], ...env },
      cwd,
      detached: isGroup,
    });
    this.#child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.#stdout += text;
    });
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
      this.#look();
    });
    this.ended = once(this.#child, "close").then(([code, signal]) => {
      this.#hasEnded = true;
      this.#look();
      return {
        code: code as number | null,
        signal: signal as string | null,
        stdout: this.#stdout,
        stderr: this.#stderr,
      };
    });
  }

  /** What it has written to standard error until now. */
  get stderr(): string {
    return this.#stderr;
  }

  signal(signal: NodeJS.Signals): void {
    const { pid } = this.#child;
    if (!this.#isGroup || pid === undefined) {
      this.#child.kill(signal);
      return;
    }
    try {
      kill(-pid, signal);
    } catch {
      // It has ended.
    }
  }

  /** Wait until it has written `text` to standard error. @throws if it ends without. */
  async said(text: string): Promise<void> {
    while (!this.#stderr.includes(text)) {
      if (this.#hasEnded) throw new Error(`ended without ${JSON.stringify(text)}: ${this.#stderr}`);
      await new Promise<void>((resolve) => {
        const waiter = () => {
          this.#waiters.delete(waiter);
          resolve();
        };
        this.#waiters.add(waiter);
      });
    }
  }

  #look(): void {
    for (const waiter of [...this.#waiters]) waiter();
  }
}

/** The command that starts an executable, as scripts that are given its path do. */
export function executablePath(name: ExecutableName): string {
  return join(CHECKOUT, "node_modules/.bin", name);
}

/** Start an executable; what is left of it is killed when the test ends. */
export function startExecutable(
  t: TestContext,
  name: ExecutableName,
  args: readonly string[],
  options: ExecutableOptions = {},
): RunningProgram {
  const program = new RunningProgram(executablePath(name), args, options);
  t.after(() => {
    program.signal("SIGKILL");
    return program.ended;
  });
  return program;
}

/** Run an executable that ends by itself. */
export function runExecutable(
  name: ExecutableName,
  args: readonly string[],
  options: ExecutableOptions = {},
): Promise<EndedProgram> {
  return new RunningProgram(executablePath(name), args, options).ended;
}
