import { readdirSync, writeFileSync } from "node:fs";
import { httpGet } from "../processes/http-get.ts";
import type { Handles } from "./handles.ts";
import type { Inside } from "./soak-subject.ts";

/** A worker of the server, which has no channel to the soak: it is looked at from outside. */
export class WorkerInside implements Inside {
  readonly #number: number;
  readonly #pid: number;
  readonly #adminPort: number;

  /**
   * @param number - From 1.
   * @param adminPort - The server's, with profiling enabled.
   */
  constructor(number: number, pid: number, adminPort: number) {
    this.#number = number;
    this.#pid = pid;
    this.#adminPort = adminPort;
  }

  handles(): Handles {
    return { files: readdirSync(`/proc/${this.#pid}/fd`).length };
  }

  async writeSnapshot(path: string): Promise<void> {
    const query = `/debug/pprof/heapsnapshot?worker=${this.#number}`;
    const { status, body } = await httpGet(this.#adminPort, query);
    if (status !== 200) throw new Error(`no heap snapshot of worker ${this.#number}: ${body}`);
    writeFileSync(path, body);
  }
}
