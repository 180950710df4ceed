import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Child, ChildProcesses } from "../processes/child-processes.ts";
import { freePort } from "../processes/free-port.ts";
import { answersOk, waitUntil } from "../subjects/wait-until.ts";
import type { ProbeSample } from "./probe.ts";

const PROBE = new URL("./probe.js", import.meta.url).href;
const SAMPLE_TIMEOUT_MS = 10_000;

const EXECUTABLES = {
  "reachback-server": "../../../server/bin/reachback-server.js",
  "reachback-agent": "../../../agent/bin/reachback-agent.js",
} as const;

/** The server or an agent, whose inside can be looked at. */
export class ProbedProgram {
  readonly child: Child;
  readonly #healthPort: number;

  private constructor(child: Child, healthPort: number) {
    this.child = child;
    this.#healthPort = healthPort;
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
      "--expose-gc",
      "--import",
      PROBE,
    ]);
    await waitUntil(name, child, () => answersOk(healthPort, readyPath));
    return new ProbedProgram(child, healthPort);
  }

  /** Let it collect its garbage, and say what is left. */
  async sample(): Promise<ProbeSample> {
    const { process } = this.child;
    const answer = once(process, "message", { signal: AbortSignal.timeout(SAMPLE_TIMEOUT_MS) });
    process.send("sample");
    const [sample] = (await answer) as [ProbeSample];
    return sample;
  }

  /** Samples of its metrics by their names with labels, as they are exposed. */
  async metrics(): Promise<ReadonlyMap<string, number>> {
    const response = await fetch(`http://127.0.0.1:${this.#healthPort}/metrics`, {
      headers: { connection: "close" },
    });
    const lines = (await response.text()).split("\n").filter((line) => /^[a-z]/.test(line));
    return new Map(
      lines.map((line) => {
        const space = line.lastIndexOf(" ");
        return [line.slice(0, space), Number(line.slice(space + 1))];
      }),
    );
  }
}
