import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { generateCertificates } from "@reachback/cli";
import { packageVersion } from "@reachback/common";
import type { BenchHost } from "./bench-host.ts";
import { OptionsProblem, parseOptions } from "./options.ts";
import type { BenchOptions } from "./options.ts";
import { endCores } from "./processes/end-cores.ts";
import { formatElapsed } from "./report/format.ts";
import { jsonReport } from "./report/json-report.ts";
import { describeMachine, machineText } from "./report/machine.ts";
import { Progress } from "./report/progress.ts";
import { svgChart } from "./report/svg-chart.ts";
import type { CaseResult } from "./run/case-result.ts";
import { runScenarios } from "./run/runner.ts";
import { direct } from "./subjects/direct.ts";
import type { LabMaterial } from "./subjects/lab.ts";
import { openssh } from "./subjects/openssh.ts";
import { peer } from "./subjects/peer.ts";
import { reachback } from "./subjects/reachback.ts";
import { tlsRelay } from "./subjects/tls-relay.ts";
import { withWorkshop } from "./workshop.ts";

/** Run the bench with the host's arguments; returns the exit code. */
export async function runBench(host: BenchHost): Promise<number> {
  const version = packageVersion(import.meta.url);
  try {
    const parsed = await parseOptions(host.argv, version);
    if (parsed.kind === "text") {
      host.stdout(`${parsed.text}\n`);
      return 0;
    }
    return await measureAndReport(host, parsed.options, version);
  } catch (error) {
    host.stderr(`Error: ${error instanceof Error ? error.message : String(error)}\n`);
    if (error instanceof OptionsProblem) {
      host.stderr('Run "reachback-bench --help" for usage.\n');
    }
    return 1;
  }
}

async function measureAndReport(
  host: BenchHost,
  options: BenchOptions,
  version: string,
): Promise<number> {
  const startedAtMs = performance.now();
  const startedAt = new Date().toISOString();
  const cores = options.endsShareCores ? undefined : endCores();
  const machine = describeMachine(cores);
  const progress = new Progress(host, () => performance.now());
  const results = await withWorkshop(host, ({ folder, children }) => {
    host.stdout(`reachback-bench ${version} · ${machineText(machine)}\n\n`);
    return runInWorkshop(options, { folder, children, cores }, progress);
  }).finally(() => {
    progress.clear();
  });

  const durationMs = performance.now() - startedAtMs;
  if (options.jsonPath !== undefined) {
    const text = jsonReport({
      version,
      startedAt,
      durationSeconds: durationMs / 1000,
      machine,
      plan: options.plan,
      cases: results,
    });
    writeFileSync(resolve(host.cwd, options.jsonPath), text);
  }
  if (options.svgPath !== undefined) {
    const caption = `reachback-bench ${version} · ${machineText(machine)} · ${startedAt.slice(0, 10)}`;
    writeFileSync(resolve(host.cwd, options.svgPath), svgChart(results, caption));
  }
  host.stdout(`${formatElapsed(durationMs)} in all. What the numbers mean: docs/benchmarks.md\n`);
  // A reference that is not there is no failure; a measurement that went wrong is.
  return results.some(hasFailed) ? 1 : 0;
}

function hasFailed({ rows, unavailable }: CaseResult): boolean {
  return (
    rows.some(({ failures }) => failures.length > 0) ||
    unavailable.some(({ isFailure }) => isFailure)
  );
}

async function runInWorkshop(
  options: BenchOptions,
  { folder, children, cores }: Omit<LabMaterial, "certificates" | "families">,
  progress: Progress,
) {
  const certificates = await generateCertificates({ outDir: join(folder, "certs") });
  const families = [direct, tlsRelay, reachback, openssh];
  if (options.peer !== undefined) families.push(peer(options.peer));
  return runScenarios({
    scenarios: options.scenarios,
    subjectIds: options.subjectIds,
    referenceId: options.referenceId,
    plan: options.plan,
    material: { folder, certificates, children, cores, families },
    observer: progress,
  });
}
