import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { ChildProgram } from "../../src/demo/child-program.ts";
import { temporaryFolder } from "../certs/temporary-folder.ts";

const NEVER = new AbortController().signal;

/** Start a program with this source. */
function start(t: TestContext, source: string): ChildProgram {
  const folder = temporaryFolder(t);
  const scriptPath = join(folder, "program.mjs");
  writeFileSync(scriptPath, source);
  const program = new ChildProgram(
    { name: "it", scriptPath, flags: ["a b"], logPath: join(folder, "it.log") },
    { env: process.env, nodePath: process.execPath },
  );
  t.after(() => program.kill());
  return program;
}

/** Goes on for ever, as a server does. */
const FOR_EVER = "setInterval(() => {}, 1000);";

describe("ChildProgram", () => {
  it("passes on the log, from standard output and standard error, to a file too", async (t) => {
    const program = start(
      t,
      `console.log(JSON.stringify({ event: "one", flag: process.argv[2] }));
       console.error("two"); console.log('{ "event": "program.started" }'); ${FOR_EVER}`,
    );
    await program.started(NEVER);
    const one = await program.waitForLog(({ event }) => event === "one", NEVER);
    assert.equal(one["flag"], "a b");
    assert.equal(program.ending, undefined);
    await program.kill();
    assert.equal(program.ending, "signal SIGKILL");
    assert.equal(program.lineCount, 3);
    assert.deepEqual([...program.lastLines(9)].sort(), [
      "two",
      '{ "event": "program.started" }',
      '{"event":"one","flag":"a b"}',
    ]);
    const logged = readFileSync(program.logPath, "utf8").trimEnd().split("\n");
    assert.deepEqual(logged, program.lastLines(9));
  });

  it("does not wait for a line that can no longer come", async (t) => {
    const program = start(t, 'console.error("why"); process.exitCode = 3;');
    await assert.rejects(program.started(NEVER), { message: "it ended with exit code 3" });
    assert.deepEqual(program.lastLines(9), ["why"]);
    await assert.rejects(program.started(NEVER), { message: "it ended with exit code 3" });
  });

  it("takes older lines into account only if asked to", async (t) => {
    const program = start(t, `console.log('{ "event": "x" }'); ${FOR_EVER}`);
    const isX = ({ event }: Readonly<Record<string, unknown>>) => event === "x";
    await program.waitForLog(isX, NEVER);
    const stop = new AbortController();
    const waiting = program.waitForLog(isX, stop.signal, program.lineCount);
    stop.abort(new Error("enough"));
    await assert.rejects(waiting, { message: "enough" });
    await assert.rejects(program.waitForLog(isX, stop.signal), { message: "enough" });
  });

  it("says so if the program cannot be started", async (t) => {
    const program = new ChildProgram(
      { name: "it", scriptPath: "x", flags: [], logPath: join(temporaryFolder(t), "log") },
      { env: {}, nodePath: "/nowhere/node" },
    );
    await assert.rejects(program.started(NEVER), /^Error: it ended with exit code/);
    assert.match(program.lastLines(1).join(), /ENOENT/);
  });
});
