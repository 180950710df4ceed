import { execFileSync, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";

const REACHBACK_PATH = fileURLToPath(new URL("../../bin/reachback.js", import.meta.url));

/** How the demo ended. */
export interface DemoEnd {
  readonly exitCode: number | null;
  readonly signal: string | null;
}

/** `reachback demo` as a process, from the build, with a folder of its own for temporary files. */
export class DemoProcess {
  readonly #child: ChildProcess;
  readonly ended: Promise<DemoEnd>;
  output = "";

  constructor(t: TestContext, temporaryFolder: string, flags: readonly string[] = []) {
    // A process group of its own, so that whatever it leaves behind can be found.
    this.#child = spawn(process.execPath, [REACHBACK_PATH, "demo", ...flags], {
      detached: true,
      env: { ...process.env, TMPDIR: temporaryFolder },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.setEncoding("utf8");
      stream?.on("data", (text: string) => {
        this.output += text;
      });
    }
    this.ended = new Promise((resolve) => {
      this.#child.once("close", (exitCode, signal) => {
        resolve({ exitCode, signal });
      });
    });
    t.after(async () => {
      this.kill("SIGKILL");
      await this.ended;
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Wait until it has printed `text`. @throws {Error} if it ends without. */
  async printed(text: string): Promise<void> {
    while (!this.output.includes(text)) {
      const hasEnded = this.#child.exitCode !== null || this.#child.signalCode !== null;
      if (hasEnded) throw new Error(`the demo ended without "${text}": ${this.output}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** What of it is still running, itself included. */
  running(): readonly string[] {
    return existsSync("/proc/self/stat") ? this.#runningByProc() : this.#runningByPs();
  }

  #runningByProc(): string[] {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .filter((pid) => {
        // PID (NAME) STATE PPID PGRP ...
        const [, state, , group] = statOf(pid).replace(/^.*\)/s, ")").split(" ");
        return group === String(this.pid) && state !== "Z";
      });
  }

  #runningByPs(): string[] {
    return execFileSync("ps", ["-axo", "pgid=,stat=,args="], { encoding: "utf8" })
      .split("\n")
      .filter((line) => new RegExp(`^\\s*${this.pid}\\s+[^Z]`).test(line));
  }
}

function statOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    // It ended meanwhile.
    return "";
  }
}
