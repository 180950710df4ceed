import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { readExposition } from "@reachback/common/testing";

const run = promisify(execFile);

// prom-client's samplers cannot be stopped, so that they run in a process of their own.
const SCRAPE_ONCE = `
  import { readdirSync } from "node:fs";
  import { MetricRegistry } from "../../src/metrics/metric-registry.ts";
  import { ProcessMetrics } from "../../src/metrics/process-metrics.ts";
  const registry = new MetricRegistry();
  const metrics = new ProcessMetrics();
  registry.addSource(metrics);
  const exposition = await registry.exposition();
  const openFds = readdirSync("/proc/self/fd").length - 1;
  const three = await metrics.textsWith([await metrics.readings(), await metrics.readings()]);
  const together = [...three.values()].join("");
  console.log(JSON.stringify({ exposition, openFds, together }));
`;

describe("ProcessMetrics", () => {
  it("describes the process, and lets it end", { skip: !existsSync("/proc/self/fd") }, async () => {
    const { stdout } = await run(
      process.execPath,
      [...process.execArgv, "--input-type=module", "-e", SCRAPE_ONCE],
      { cwd: import.meta.dirname, timeout: 20_000 },
    );
    const { exposition, openFds, together } = JSON.parse(stdout) as {
      exposition: string;
      openFds: number;
      together: string;
    };
    const valuesOf = (text: string) =>
      new Map(readExposition(text).map(({ name, value }) => [name, value]));
    const values = valuesOf(exposition);
    for (const name of [
      "process_cpu_seconds_total",
      "process_resident_memory_bytes",
      "process_start_time_seconds",
      "process_max_fds",
      "nodejs_eventloop_lag_p99_seconds",
      "nodejs_heap_size_used_bytes",
      "nodejs_version_info",
    ]) {
      assert.ok(values.has(name), name);
    }
    assert.ok(Math.abs((values.get("process_open_fds") ?? -1) - openFds) <= 2);
    assert.equal(values.has("nodejs_active_handles"), false);
    const sums = valuesOf(together);
    // Garbage collection has figures from the first one on, which may come in between.
    const namesOf = (of: Map<string, number>) =>
      [...of.keys()].filter((name) => !name.startsWith("nodejs_gc_")).sort();
    assert.deepEqual(namesOf(sums), namesOf(values));
    const memory = (of: Map<string, number>) => of.get("process_resident_memory_bytes") ?? 0;
    assert.ok(memory(sums) > 2.5 * memory(values));
    const startOf = (of: Map<string, number>) => of.get("process_start_time_seconds");
    assert.equal(startOf(sums), startOf(values));
  });
});
