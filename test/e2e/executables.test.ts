import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startEndpoint } from "../support/cluster.ts";
import { RunningProgram, runExecutable } from "../support/executable.ts";
import type { ExecutableName } from "../support/executable.ts";
import { connectRaw } from "../support/raw-socket.ts";
import { startSystem } from "../support/running-system.ts";

const NAMES: readonly ExecutableName[] = ["reachback", "reachback-server", "reachback-agent"];

describe("the executables", () => {
  for (const name of NAMES) {
    it(`${name} says which version it is, in well under a second`, async () => {
      const startedAtMs = performance.now();
      const { code, stdout, stderr } = await runExecutable(name, ["--version"]);
      const tookMs = performance.now() - startedAtMs;
      assert.deepEqual([code, stderr], [0, ""]);
      assert.match(stdout, /^(reachback\S* )?\d+\.\d+\.\d+\n$/);
      // It takes some 0.2 s; a machine that is busy with other tests may need more.
      assert.ok(tookMs < 3_000, `${tookMs} ms`);
    });

    it(`${name} explains itself`, async () => {
      const { code, stdout, stderr } = await runExecutable(name, ["--help"]);
      assert.deepEqual([code, stderr], [0, ""]);
      assert.match(stdout, new RegExp(`^(Usage: )?${name} `, "m"));
    });
  }

  it("are what npx starts", async () => {
    const { code, stdout } = await new RunningProgram("npx", ["reachback-server", "--version"])
      .ended;
    assert.equal(code, 0);
    assert.match(stdout, /^reachback-server \d/);
  });
});

describe("the client library", () => {
  it("loads nothing that only programs need", async () => {
    const source = `
      import { createRequire } from "node:module";
      await import("@reachback/client");
      for (const path of Object.keys(createRequire("/").cache)) console.log(path);
    `;
    const args = ["--input-type=module", "--eval", source];
    const { code, stdout, stderr } = await new RunningProgram(process.execPath, args).ended;
    assert.deepEqual([code, stdout, stderr], [0, "", ""]);
  });
});

describe("the server's program", () => {
  it("exits with 0 on SIGTERM, and resets what is open", async (t) => {
    const endpoint = await startEndpoint(t, (socket) => socket.resume());
    const { server, connectPath } = await startSystem(t);
    const client = await connectRaw(t, connectPath);
    client.write(`CONNECT ${endpoint} HTTP/1.1\r\nHost: ${endpoint}\r\n\r\n`);
    await client.whenSaid("200 Connection Established");
    server.signal("SIGTERM");
    const { code, stderr } = await server.ended;
    assert.equal(code, 0, stderr);
    assert.match(stderr, /"program\.stopped"/);
    await client.whenFinished();
  });

  it("exits at once with 1 on a second signal", async (t) => {
    const endpoint = await startEndpoint(t, (socket) => socket.resume());
    const { server, connectPath } = await startSystem(t, ["--graceful-shutdown-timeout=60s"]);
    const client = await connectRaw(t, connectPath);
    client.write(`CONNECT ${endpoint} HTTP/1.1\r\nHost: ${endpoint}\r\n\r\n`);
    await client.whenSaid("200 Connection Established");
    server.signal("SIGTERM");
    await server.said('"program.stopping"');
    const signalledAtMs = performance.now();
    server.signal("SIGTERM");
    const { code, stderr } = await server.ended;
    assert.equal(code, 1, stderr);
    assert.ok(performance.now() - signalledAtMs < 2_000);
  });
});
