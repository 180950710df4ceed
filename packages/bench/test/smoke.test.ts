import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import type { JsonReport } from "../src/report/json-report.ts";

// The real thing, at sizes that say nothing about speed.

const BENCH = fileURLToPath(new URL("../bin/reachback-bench.js", import.meta.url));
// 40 s on an idle machine, most of them spent waiting; a busy one takes three times as long.
const TIMEOUT_MS = 240_000;

/** The bench with a folder for temporary files of its own. */
function startBench(t: TestContext, ...args: string[]) {
  const folder = mkdtempSync(join(tmpdir(), "reachback-smoke-"));
  const temporary = join(folder, "tmp");
  mkdirSync(temporary);
  const child = spawn(process.execPath, [BENCH, ...args], {
    cwd: folder,
    env: { ...process.env, TMPDIR: temporary },
    stdio: ["ignore", "pipe", "pipe"],
  });
  t.after(() => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  }
  return { child, folder, temporary, output: () => output };
}

/** Processes that were started with `temporary` as their folder for temporary files. */
function processesOf(temporary: string): string[] {
  return readdirSync("/proc").filter((entry) => {
    try {
      return readFileSync(`/proc/${entry}/environ`, "latin1").includes(`TMPDIR=${temporary}\0`);
    } catch {
      return false;
    }
  });
}

async function nothingLeft(temporary: string): Promise<void> {
  assert.deepEqual(readdirSync(temporary), []);
  // A killed process is there until it has been waited for.
  for (let tries = 0; tries < 200 && processesOf(temporary).length > 0; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.deepEqual(processesOf(temporary), []);
}

/** The least that can be called a CONNECT proxy. */
async function startConnectProxy(t: TestContext): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "reachback-peer-"));
  const path = join(folder, "peer.sock");
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    sockets.add(near);
    near.on("error", () => undefined);
    near.once("data", (head: Buffer) => {
      const port = Number(/^CONNECT 127\.0\.0\.1:(\d+) /.exec(head.toString())?.[1]);
      const far = connect(port, "127.0.0.1", () => {
        near.write("HTTP/1.1 200 OK\r\n\r\n");
        near.pipe(far).pipe(near);
      });
      sockets.add(far);
      far.on("error", () => near.destroy());
    });
  });
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
    rmSync(folder, { recursive: true, force: true });
  });
  server.listen(path);
  await once(server, "listening");
  return path;
}

describe("reachback-bench", { timeout: TIMEOUT_MS }, () => {
  it("measures every path of the first scenarios, and leaves nothing behind", async (t) => {
    const { child, folder, temporary, output } = startBench(
      t,
      ...["--quick", "--scale=0.01", "--rounds=1"],
      ...[
        "--scenario=bulk,echo,dials,idle",
        "--subject=direct,relay,reachback,reachback-grpc,peer",
      ],
      ...["--peer-socket", await startConnectProxy(t), "--peer-pids", String(process.pid)],
      ...["--json=result.json", "--svg=result.svg"],
    );
    const [code] = (await once(child, "exit")) as [number];
    assert.equal(code, 0, output());
    await nothingLeft(temporary);

    const report = JSON.parse(readFileSync(join(folder, "result.json"), "utf8")) as JsonReport;
    assert.equal(report.schema, "reachback-bench/1");
    assert.deepEqual(
      report.cases.map(({ id }) => id),
      [
        "bulk-download-1",
        "bulk-upload-1",
        "bulk-download-8",
        "bulk-upload-8",
        "echo-1",
        "echo-32",
        "dials-8",
        "idle-10",
      ],
    );
    for (const { id, rows, metrics, unavailable } of report.cases) {
      assert.deepEqual(unavailable, []);
      assert.equal(rows.length, id === "idle-10" ? 4 : 5, id);
      for (const row of rows) {
        assert.deepEqual(row.failures, [], `${id} ${row.id}`);
        const { processes } = row.samples[0]!;
        assert.equal(processes.length, { direct: 0, peer: 1 }[row.id as string] ?? 2);
        // How much memory ten connections take is noise, and may be less than nothing.
        if (id === "idle-10") continue;
        for (const metric of metrics) {
          const value = row.summaries[metric.id]?.median;
          const isOfPath = /^(?:cpu|peak)/.test(metric.id);
          if (row.id === "direct" && isOfPath) assert.equal(value, undefined);
          else if (metric.id === "failed") assert.equal(value, 0, `${id} ${row.id}`);
          else assert.ok(value! > 0, `${id} ${row.id} ${metric.id}: ${value}`);
        }
      }
    }
    assert.match(output(), /^Bulk download, 1 connection · 1 round$/m);
    assert.match(output(), /^ {2}Reachback, CONNECT +[0-9.,]+ +[0-9.]+x /m);
    assert.match(readFileSync(join(folder, "result.svg"), "utf8"), /^<svg .*<\/svg>\n$/s);
  });

  it("measures each path over a delay beside the same path without it", async (t) => {
    const { child, folder, temporary, output } = startBench(
      t,
      ...["--quick", "--scale=0.01", "--rounds=1", "--scenario=delay"],
      ...["--subject=direct,reachback,reachback-grpc,peer", "--json=result.json"],
      ...["--peer-socket", await startConnectProxy(t)],
    );
    const [code] = (await once(child, "exit")) as [number];
    assert.equal(code, 0, output());
    await nothingLeft(temporary);

    const report = JSON.parse(readFileSync(join(folder, "result.json"), "utf8")) as JsonReport;
    assert.deepEqual(
      report.cases.map(({ id }) => id),
      ["delay-10-download", "delay-10-upload", "delay-10-echo"],
    );
    // Each transfer waits for one answer at least: over 10 ms none can be faster than this.
    const fastestMib = report.plan.bulkBytes / 2 ** 20 / 0.01;
    const undelayedRates: number[] = [];
    for (const { id, rows, unavailable } of report.cases) {
      assert.deepEqual(
        rows.map((row) => [row.id, row.failures]),
        ["direct", "reachback", "reachback-grpc"].map((subject) => [subject, []]),
      );
      assert.deepEqual(
        unavailable.map((row) => [row.id, row.isFailure]),
        [["peer", false]],
      );
      if (id === "delay-10-echo") continue;
      for (const row of rows) {
        const { rate, undelayedRate, rateKept } = row.samples[0]!.values;
        assert.ok(rate! < fastestMib, `${id} ${row.id}: ${rate} MiB/s over 10 ms`);
        assert.ok(Math.abs(rateKept! - (rate! / undelayedRate!) * 100) < 0.1, String(rateKept));
        undelayedRates.push(undelayedRate!);
      }
    }
    // A busy machine can hold up some of them for 10 ms, not all six.
    assert.ok(
      Math.max(...undelayedRates) > fastestMib,
      `without a delay: ${undelayedRates.join()}`,
    );
  });

  it("measures what others feel of a stalled reader and of a download, and of neither", async (t) => {
    const { child, folder, temporary, output } = startBench(
      t,
      ...["--quick", "--scale=0.01", "--rounds=1", "--scenario=stalled,beside"],
      ...["--subject=direct,relay,reachback", "--json=result.json", "--reference=relay"],
    );
    const [code] = (await once(child, "exit")) as [number];
    assert.equal(code, 0, output());
    await nothingLeft(temporary);

    const report = JSON.parse(readFileSync(join(folder, "result.json"), "utf8")) as JsonReport;
    assert.deepEqual(
      report.cases.map(({ id, referenceId, rows }) => [id, referenceId, rows.map((row) => row.id)]),
      [
        ["stalled-download", "relay", ["relay", "reachback"]],
        ["stalled-upload", "relay", ["relay", "reachback"]],
        ["beside-download", "relay", ["direct", "relay", "reachback"]],
      ],
    );
    for (const { id, metrics, rows } of report.cases) {
      for (const row of rows) {
        const measured = Object.keys(row.samples[0]!.values);
        assert.deepEqual(
          measured,
          metrics.map((metric) => metric.id),
          `${id} ${row.id}`,
        );
      }
    }
  });

  it("leaves nothing behind when it is interrupted", async (t) => {
    const { child, temporary } = startBench(t, "--scenario=bulk");
    while (processesOf(temporary).length < 6) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    child.kill("SIGINT");
    const [code] = (await once(child, "exit")) as [number];
    assert.equal(code, 130);
    await nothingLeft(temporary);
  });

  it("says what is wrong with its options", async (t) => {
    const { child, output } = startBench(t, "--scenario=nothing");
    const [code] = (await once(child, "exit")) as [number];
    assert.equal(code, 1);
    assert.match(output(), /^Error: --scenario nothing: there is only bulk/);
  });
});
