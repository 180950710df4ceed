import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { temporaryFolder } from "../certs/temporary-folder.ts";
import { runReachback } from "../cli-run.ts";
import { DemoProcess } from "./demo-process.ts";
import { DEMO_ROWS } from "./demo-rows.ts";

const hasCurl = spawnSync("curl", ["--version"]).status === 0;

/** A command, and what it came to. Never rejects. */
async function shell(command: string): Promise<{ code: unknown; stdout: string; stderr: string }> {
  try {
    return { code: 0, ...(await promisify(execFile)("sh", ["-c", command])) };
  } catch (error) {
    return error as { code: unknown; stdout: string; stderr: string };
  }
}

/** The commands in the output, by the comments before them. */
function curlCommandsIn(output: string): Map<string, string> {
  const found = output.matchAll(/^# (.*)\n(curl (?:.*\\\n)*.*)\n/gm);
  return new Map(Array.from(found, ([, purpose = "", command = ""]) => [purpose, command]));
}

// Together, because each spends most of its time on starting processes and waiting for them.
describe("reachback demo", { concurrency: true }, () => {
  it("shows that everything works, and leaves nothing behind", async (t) => {
    const folder = temporaryFolder(t);
    const demo = new DemoProcess(t, folder);
    assert.deepEqual(await demo.ended, { exitCode: 0, signal: null }, demo.output);

    const table = demo.output.split("outcome\n")[1] ?? "";
    for (const row of DEMO_ROWS) assert.match(table, row);
    assert.equal(table.match(/^ok/gm)?.length, DEMO_ROWS.length);
    assert.match(demo.output, /\nAll 8 as they must be, in [\d.]+ s\.\n$/);
    assert.ok(!demo.output.includes("\u001b"), "colours in a pipe");

    assert.deepEqual(demo.running(), []);
    assert.deepEqual(readdirSync(folder), []);
  });

  it("with --keep prints requests that work as they are, until it is stopped", async (t) => {
    const folder = join(temporaryFolder(t), "it's mine");
    mkdirSync(folder);
    const demo = new DemoProcess(t, folder, ["--keep"]);
    await demo.printed("It ends all processes");
    const commands = curlCommandsIn(demo.output);
    assert.equal(commands.size, 4);
    if (hasCurl) {
      const [pod, podList, log, impostor] = await Promise.all([...commands.values()].map(shell));
      assert.deepEqual(pod, { code: 0, stdout: "hello from the pod\n", stderr: "" });
      assert.equal(podList?.stderr, "");
      assert.equal((JSON.parse(podList.stdout) as { kind: string }).kind, "PodList");
      assert.equal(log?.stderr, "");
      assert.equal(log.stdout.split("\n").length, 7);
      assert.match(log.stdout, /^[\d-]+T[\d:.]+Z line 1 of 6\n/);
      assert.notEqual(impostor?.code, 0);
      assert.equal(impostor?.stdout, "");
    }
    assert.ok(demo.output.includes(`kill ${demo.pid}\n`));
    assert.equal(demo.running().length, 7);

    demo.kill("SIGINT");
    assert.deepEqual(await demo.ended, { exitCode: 0, signal: null });
    assert.deepEqual(demo.running(), []);
    assert.deepEqual(readdirSync(folder), []);
    if (!hasCurl) t.skip("needs the curl command");
  });

  it("leaves nothing behind when it is interrupted", async (t) => {
    const folder = temporaryFolder(t);
    const demo = new DemoProcess(t, folder);
    await demo.printed("ok    certificates");
    demo.kill("SIGINT");
    assert.deepEqual(await demo.ended, { exitCode: 130, signal: null });
    assert.match(demo.output, /\nStopping\.\n$/);
    assert.deepEqual(demo.running(), []);
    assert.deepEqual(readdirSync(folder), []);
  });

  it("takes all its processes with it when it is killed", async (t) => {
    const demo = new DemoProcess(t, temporaryFolder(t));
    await demo.printed("ok    agents");
    assert.equal(demo.running().length, 7);
    demo.kill("SIGKILL");
    await demo.ended;
    const deadlineMs = performance.now() + 5_000;
    while (demo.running().length > 0 && performance.now() < deadlineMs) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert.deepEqual(demo.running(), []);
  });

  it("explains itself, and hides the command that it starts endpoints with", async () => {
    const { exitCode, stdout } = await runReachback(["demo", "--help"]);
    assert.equal(exitCode, 0);
    assert.match(stdout, /--keep/);
    assert.match(stdout, /exit code is 0 only if/);
    const general = await runReachback(["--help"]);
    assert.match(general.stdout, /reachback demo /);
    assert.ok(!general.stdout.includes("demo-endpoint"));
  });
});
