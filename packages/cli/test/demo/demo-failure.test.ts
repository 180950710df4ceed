import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { systemClock, systemRandom } from "@reachback/common";
import type { CliHost } from "../../src/cli-host.ts";
import type { DemoStep } from "../../src/demo/demo-step.ts";
import { reservePorts } from "../../src/demo/reserve-ports.ts";
import { runDemo } from "../../src/demo/run-demo.ts";
import type { DemoOptions } from "../../src/demo/run-demo.ts";
import { podRequest } from "../../src/demo/steps/pod-request.ts";

/** Run the demo in this process; what it starts runs the build. */
async function run(options: Omit<DemoOptions, "keep">): Promise<{ code: number; output: string }> {
  let output = "";
  const host: CliHost = {
    argv: [],
    env: process.env,
    cwd: "/nowhere",
    pid: process.pid,
    nodePath: process.execPath,
    clock: systemClock,
    stdout: (text) => {
      output += text;
    },
    stderr: (text) => {
      output += text;
    },
    stdoutIsTerminal: false,
    onStop: () => () => undefined,
  };
  const code = await runDemo({ ...options, keep: false }, host);
  return { code, output };
}

describe("reachback demo, when something is wrong", { concurrency: true }, () => {
  it("says which program could not start, and why", async (t) => {
    const squatter = createServer().listen(0, "127.0.0.1");
    t.after(() => squatter.close());
    await once(squatter, "listening");
    const { port } = squatter.address() as AddressInfo;
    const { code, output } = await run({
      reservePorts: async (count) => {
        const { ports, release } = await reservePorts(count, systemRandom);
        return { ports: [port, ...ports.slice(1)], release };
      },
    });
    assert.equal(code, 1);
    assert.match(
      output,
      /^FAIL {2}server +[\d.]+ m?s {2}expected it to start; got server ended with/m,
    );
    assert.match(output, /^ {2}got: {6}server ended with exit code 1$/m);
    assert.match(output, /^ {2}server \(ended with exit code 1\), end of its log:$/m);
    assert.match(
      output,
      new RegExp(`^ {4}Error: .*listen tcp 127.0.0.1:${port}: bind: address already in use$`, "m"),
    );
    assert.match(output, /\nWithout that there is nothing to show\.\n$/);
  });

  it("says what was expected of a step and what came, and goes on with the next", async () => {
    const broken: DemoStep = {
      title: "a step",
      frontends: "-",
      nodes: [],
      expected: "this",
      programs: ["pod"],
      run: () => Promise.reject(new Error("that")),
    };
    const misrouted: DemoStep = { ...podRequest("gRPC"), nodes: ["node-a"] };
    const { code, output } = await run({ steps: [broken, misrouted, podRequest("CONNECT")] });
    assert.equal(code, 1);
    assert.match(output, /^FAIL {2}a step +- +- +[\d.]+ m?s {2}expected this; got that$/m);
    assert.match(output, /^FAIL {2}pod request +gRPC +node-a +[\d.]+ m?s {2}expected connections/m);
    assert.match(output, /^ok {4}pod request +CONNECT +node-b +[\d.]+ m?s {2}200, "hello/m);
    assert.match(
      output,
      /^FAIL {2}a step\n {2}expected: this\n {2}got: {6}that\n {2}pod, end of its log:\n {4}\{.*"program.started"/m,
    );
    assert.match(
      output,
      /^ {2}expected: connections through node-a\n {2}got: {6}some through node-b\n {2}server, end of its log:\n(?: {4}.*\n)+ {2}node-b, end of its log:\n/m,
    );
    assert.match(output, /\n2 of 3 not as they must be, in [\d.]+ s\.\n$/);
  });
});
