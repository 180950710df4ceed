import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Child, ChildProcesses } from "../processes/child-processes.ts";
import { freePort } from "../processes/free-port.ts";
import { httpGet } from "../processes/http-get.ts";
import { answersOk, waitUntil } from "../subjects/wait-until.ts";
import type { Handles } from "./handles.ts";
import type { ProbeRequest } from "./probe.ts";
import type { Inside } from "./soak-subject.ts";

const PROBE = new URL(`./probe.js?soak=${process.pid}`, import.meta.url).href;
const PROBE_TIMEOUT_MS = 60_000;

const EXECUTABLES = {
  "reachback-server": "../../../server/bin/reachback-server.js",
  "reachback-agent": "../../../agent/bin/reachback-agent.js",
} as const;

/** The server or an agent, whose inside can be looked at. */
export class ProbedProgram implements Inside {
  readonly child: Child;
  readonly adminPort: number;
  readonly #healthPort: number;

  private constructor(child: Child, healthPort: number, adminPort: number) {
    this.child = child;
    this.#healthPort = healthPort;
    this.adminPort = adminPort;
  }

  /** Start it; resolves when `readyPath` of its health port says so. */
  static async start(
    children: ChildProcesses,
    name: keyof typeof EXECUTABLES,
    readyPath: string,
    args: (healthPort: number, adminPort: number) => readonly string[],
  ): Promise<ProbedProgram> {
    const healthPort = await freePort();
    const adminPort = await freePort();
    const program = fileURLToPath(new URL(EXECUTABLES[name], import.meta.url));
    const child = await children.forkProgram(program, args(healthPort, adminPort), [
      "--import",
      PROBE,
    ]);
    await waitUntil(name, child, () => answersOk(healthPort, readyPath));
    return new ProbedProgram(child, healthPort, adminPort);
  }

  async handles(): Promise<Handles> {
    return (await this.#ask("handles")) as Handles;
  }

  async writeSnapshot(snapshotPath: string): Promise<void> {
    await this.#ask({ snapshotPath });
  }

  async #ask(request: ProbeRequest): Promise<unknown> {
    const { process } = this.child;
    const answer = once(process, "message", { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
    process.send(request);
    const [first] = (await answer) as [unknown];
    return first;
  }

  /** Samples of its metrics by their names with labels, as they are exposed. */
  async metrics(): Promise<ReadonlyMap<string, number>> {
    const { body } = await httpGet(this.#healthPort, "/metrics");
    const lines = body.split("\n").filter((line) => /^[a-z]/.test(line));
    return new Map(
      lines.map((line) => {
        const space = line.lastIndexOf(" ");
        return [line.slice(0, space), Number(line.slice(space + 1))];
      }),
    );
  }
}
