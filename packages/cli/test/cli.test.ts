import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { runReachback } from "./cli-run.ts";

describe("reachback", () => {
  it("prints its commands for --help and -h, and its version for --version", async () => {
    for (const flag of ["--help", "-h"]) {
      const { exitCode, stdout, stderr } = await runReachback([flag]);
      assert.equal(exitCode, 0);
      assert.equal(stderr, "");
      assert.match(stdout, /^reachback <command>\n/);
      assert.match(stdout, /reachback certs \[role\]/);
    }
    const manifest = readFileSync(new URL("../package.json", import.meta.url), "utf8");
    const { version } = JSON.parse(manifest) as { version: string };
    const run = await runReachback(["--version"]);
    assert.deepEqual(run, { exitCode: 0, stdout: `${version}\n`, stderr: "" });
  });

  it("wants a command that it knows", async () => {
    const usage = 'Run "reachback --help" for usage.\n';
    const none = await runReachback([]);
    assert.deepEqual(none, { exitCode: 1, stdout: "", stderr: `Error: name a command\n${usage}` });
    const other = await runReachback(["nope"]);
    assert.deepEqual(other, {
      exitCode: 1,
      stdout: "",
      stderr: `Error: Unknown argument: nope\n${usage}`,
    });
  });
});
