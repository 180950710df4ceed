import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import type { Readable } from "node:stream";
import type { TestContext } from "node:test";

/** Why tests with kubectl cannot run here, or false: for the `skip` of node:test. */
export const kubectlMissing: string | false = hasKubectl()
  ? false
  : "kubectl is not installed (any version from 1.30 on will do)";

function hasKubectl(): boolean {
  return (process.env["PATH"] ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, "kubectl"), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** How a run of kubectl ended. */
export interface KubectlResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface KubectlRunOptions {
  /** What it reads; nothing by default. */
  readonly input?: string | Buffer;
  readonly env?: Readonly<Record<string, string>>;
}

/** A kubectl that runs beside the test. */
export interface KubectlProcess {
  readonly stdin: NodeJS.WritableStream;
  /** Wait until its standard output has a match, from the beginning on. */
  readonly printed: (pattern: RegExp) => Promise<RegExpExecArray>;
  /** The same of its standard error. */
  readonly complained: (pattern: RegExp) => Promise<RegExpExecArray>;
  readonly kill: () => void;
  readonly exited: Promise<KubectlResult>;
}

/** Older kubectls speak SPDY only, newer ones do with these. */
export const SPDY_ONLY = {
  KUBECTL_REMOTE_COMMAND_WEBSOCKETS: "false",
  KUBECTL_PORT_FORWARD_WEBSOCKETS: "false",
};

/** The real kubectl, with one kubeconfig, and caches of its own. */
export class Kubectl {
  readonly #t: TestContext;
  readonly #folder: string;
  readonly #kubeconfigPath: string;

  constructor(t: TestContext, folder: string, kubeconfigPath: string) {
    this.#t = t;
    this.#folder = folder;
    this.#kubeconfigPath = kubeconfigPath;
  }

  get env(): Record<string, string> {
    return {
      PATH: process.env["PATH"] ?? "",
      HOME: this.#folder,
      KUBECONFIG: this.#kubeconfigPath,
    };
  }

  /** Run it until it ends, or ninety seconds. */
  run(
    args: readonly string[],
    { input = "", env }: KubectlRunOptions = {},
  ): Promise<KubectlResult> {
    const { stdin, exited } = this.start(args, env);
    stdin.end(input);
    return exited;
  }

  /** Start it; it is killed when the test ends. */
  start(args: readonly string[], env: Readonly<Record<string, string>> = {}): KubectlProcess {
    const child = spawn("kubectl", args, { env: { ...this.env, ...env }, timeout: 90_000 });
    child.stdin.on("error", () => undefined);
    const stdout = new OutputText(child.stdout);
    const stderr = new OutputText(child.stderr);
    const exited = new Promise<KubectlResult>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code) => {
        resolve({ code, stdout: stdout.text, stderr: stderr.text });
      });
    });
    const unlessEnded = (match: Promise<RegExpExecArray>) => {
      const ended = exited.then((result) => {
        throw new Error(`kubectl ended too early: ${JSON.stringify(result)}`);
      });
      return Promise.race([match, ended]);
    };
    this.#t.after(() => {
      child.kill("SIGKILL");
      return exited;
    });
    return {
      stdin: child.stdin,
      exited,
      kill: () => {
        child.kill("SIGKILL");
      },
      printed: (pattern) => unlessEnded(stdout.match(pattern)),
      complained: (pattern) => unlessEnded(stderr.match(pattern)),
    };
  }
}

/** All that came from a stream. */
export class OutputText {
  text = "";
  readonly #watchers = new Set<() => void>();

  constructor(output: Readable) {
    output.setEncoding("utf8");
    output.on("data", (piece: string) => {
      this.text += piece;
      for (const watcher of this.#watchers) watcher();
    });
  }

  match(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((resolve) => {
      const look = () => {
        const match = pattern.exec(this.text);
        if (match === null) return;
        this.#watchers.delete(look);
        resolve(match);
      };
      this.#watchers.add(look);
      look();
    });
  }
}
