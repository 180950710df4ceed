import { startLab, subjectsOf } from "../subjects/lab.ts";
import type { Lab } from "../subjects/lab.ts";
import type { BenchCase } from "./bench-case.ts";
import type { RunRequest } from "./run-request.ts";
import { warmUp } from "./warm-up.ts";

/** The lab of the cases that share one; only one is up at a time. */
export class SharedLab {
  readonly #request: RunRequest;
  #lab: Lab | undefined;
  #key = "";

  constructor(request: RunRequest) {
    this.#request = request;
  }

  /** The lab for that case, warmed up: the one that is there, if it is the same. */
  async get(benchCase: BenchCase): Promise<Lab> {
    const { material, plan } = this.#request;
    const subjectIds = benchCase.subjectIds.filter((id) => this.#request.subjectIds.includes(id));
    const { rttMs, withUndelayed = false } = benchCase;
    const key = `${subjectIds.join()} ${rttMs ?? "no relay"} ${withUndelayed}`;
    if (this.#lab !== undefined && this.#key === key) return this.#lab;
    await this.stop();
    this.#lab = await startLab(material, { subjectIds, rttMs, withUndelayed });
    this.#key = key;
    for (const subject of subjectsOf(this.#lab)) {
      // What is wrong with one shows when it is measured, and is not to stop the others.
      await warmUp(this.#lab, subject, plan).catch(() => undefined);
    }
    return this.#lab;
  }

  async stop(): Promise<void> {
    await this.#lab?.stop();
    this.#lab = undefined;
  }
}
