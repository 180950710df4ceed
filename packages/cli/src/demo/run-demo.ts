import { mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { systemRandom } from "@reachback/common";
import type { CliHost, StopSignal } from "../cli-host.ts";
import {
  durationText,
  failureReport,
  progressLine,
  resultTable,
  setupLine,
} from "./demo-report.ts";
import type { DemoStep } from "./demo-step.ts";
import { keepText } from "./keep-text.ts";
import { Lab } from "./lab.ts";
import { LabPlan, PORT_COUNT } from "./lab-plan.ts";
import { paintFor } from "./paint.ts";
import type { Paint } from "./paint.ts";
import { performStep } from "./perform-step.ts";
import type { StepResult } from "./perform-step.ts";
import { reservePorts } from "./reserve-ports.ts";
import type { ReservedPorts } from "./reserve-ports.ts";
import { DEMO_STEPS } from "./steps/demo-steps.ts";
import { SETUP_STEPS } from "./steps/setup-steps.ts";

export interface DemoOptions {
  /** Leave everything running after the table, until the process is told to stop. */
  readonly keep: boolean;
  /** @defaultValue {@link DEMO_STEPS} */
  readonly steps?: readonly DemoStep[];
  /** @defaultValue ports that are free */
  readonly reservePorts?: (count: number) => Promise<ReservedPorts>;
}

const INTRODUCTION = `\
Reachback demo. This process plays kube-apiserver; the server, two agents, a kubelet, a pod and an
impostor are processes of their own, all on this machine.

`;

/**
 * Run the demo: start a lab, do what an apiserver does, print what came of it, and leave nothing
 * behind.
 *
 * @returns The exit code: 0 if everything was as it must be.
 */
export async function runDemo(options: DemoOptions, host: CliHost): Promise<number> {
  const stop = new AbortController();
  let stoppedBy: StopSignal | undefined;
  const stopListening = host.onStop((signal) => {
    if (stoppedBy === undefined && signal !== "SIGPIPE") host.stdout("\nStopping.\n");
    stoppedBy ??= signal;
    stop.abort(new Error(`stopped by ${signal}`));
  });
  const folder = mkdtempSync(join(tmpdir(), "reachback-demo-"));
  let reserved: ReservedPorts | undefined;
  let lab: Lab | undefined;
  try {
    const reserve = options.reservePorts ?? ((count) => reservePorts(count, systemRandom));
    reserved = await reserve(PORT_COUNT);
    lab = new Lab(new LabPlan(folder, reserved.ports), host);
    const exitCode = await new Demo(lab, host, stop.signal).run(options);
    return exitCode ?? exitCodeOf(stoppedBy);
  } finally {
    await lab?.stop();
    reserved?.release();
    rmSync(folder, { recursive: true, force: true });
    stopListening();
  }
}

/** As shells report a process that a signal has ended. */
function exitCodeOf(signal: StopSignal | undefined): number {
  return signal === undefined ? 1 : 128 + constants.signals[signal];
}

const LOG_DELAY_MS = 100;

/** One run. */
class Demo {
  readonly #lab: Lab;
  readonly #host: CliHost;
  readonly #stopSignal: AbortSignal;
  readonly #paint: Paint;
  readonly #startedAtMs: number;

  constructor(lab: Lab, host: CliHost, stopSignal: AbortSignal) {
    this.#lab = lab;
    this.#host = host;
    this.#stopSignal = stopSignal;
    this.#paint = paintFor(host);
    this.#startedAtMs = host.clock.now();
  }

  /** Returns the exit code, or `undefined` if it was stopped before it had one. */
  async run({ keep, steps = DEMO_STEPS }: DemoOptions): Promise<number | undefined> {
    this.#host.stdout(INTRODUCTION);
    for (const step of SETUP_STEPS) {
      const result = await this.#perform(step);
      if (result === undefined) return undefined;
      this.#host.stdout(setupLine(result, SETUP_STEPS, this.#paint));
      if (result.failure === undefined) continue;
      const failure = await this.#failureOf(result);
      this.#host.stdout(`\n${failure}\nWithout that there is nothing to show.\n`);
      return 1;
    }

    this.#host.stdout("\n");
    const results: StepResult[] = [];
    const failures: string[] = [];
    for (const step of steps) {
      const result = await this.#perform(step);
      if (result === undefined) return undefined;
      this.#host.stdout(progressLine(result, steps, this.#paint));
      results.push(result);
      if (result.failure !== undefined) failures.push(await this.#failureOf(result));
    }

    this.#host.stdout(`\n${resultTable(results, this.#paint)}\n`);
    for (const failure of failures) this.#host.stdout(`${failure}\n`);
    this.#host.stdout(this.#verdict(results.length, failures.length));
    if (keep) await this.#stayUp();
    return failures.length === 0 ? 0 : 1;
  }

  /** Returns `undefined` if the demo has been stopped meanwhile: what came of the step is no news. */
  async #perform(step: DemoStep): Promise<StepResult | undefined> {
    const result = await performStep(step, this.#lab, this.#stopSignal);
    return this.#stopSignal.aborted ? undefined : result;
  }

  async #failureOf(result: StepResult): Promise<string> {
    // What a process logs comes a moment after what it does.
    await new Promise<void>((resolve) => {
      this.#host.clock.schedule(LOG_DELAY_MS, resolve);
    });
    const programs = result.step.programs.flatMap((name) => this.#lab.program(name) ?? []);
    return failureReport(result, programs, this.#paint);
  }

  #verdict(count: number, failedCount: number): string {
    const seconds = durationText(this.#host.clock.now() - this.#startedAtMs);
    return failedCount === 0
      ? `All ${count} as they must be, in ${seconds}.\n`
      : `${failedCount} of ${count} not as they must be, in ${seconds}.\n`;
  }

  /** Say how to try things by hand, and wait until the demo is stopped. */
  async #stayUp(): Promise<void> {
    const { plan, certificates, programs } = this.#lab;
    this.#host.stdout(keepText(plan, certificates, this.#host.pid));
    const allEnded = Promise.all(programs.map(({ ended }) => ended));
    const stopped = new Promise<void>((resolve) => {
      this.#stopSignal.addEventListener("abort", () => {
        resolve();
      });
    });
    // Without them there is nothing to try, nor to stop.
    await Promise.race([stopped, allEnded]);
  }
}
