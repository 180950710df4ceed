import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { ManualClock, RecordingLogger } from "@reachback/common/testing";
import { profilingRoutes } from "../../src/ops/profiling-routes.ts";
import { DATE, get, openOps } from "./ops-setup.ts";

const UNKNOWN = `HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n${DATE}\r\nContent-Length: 16\r\n\r\nUnknown profile\n`;

async function openProfiling(t: TestContext) {
  const clock = new ManualClock();
  const logger = new RecordingLogger();
  const routes = profilingRoutes({ enabled: true, contention: false }, { clock, logger });
  return { ...(await openOps(t, routes)), clock, logger };
}

/** Wait, turn by turn, until the profile that was asked for is being taken. */
async function whenRecording(clock: ManualClock): Promise<void> {
  while (clock.pendingTimers === 0) await new Promise((resolve) => setImmediate(resolve));
}

function jsonOf(answer: string): unknown {
  return JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4));
}

function burnCpuForProfile(): number {
  const endAt = performance.now() + 60;
  let turns = 0;
  while (performance.now() < endAt) turns++;
  return turns;
}

function allocateForProfile(): unknown[] {
  return Array.from({ length: 50_000 }, (_, index) => ({ index, text: `item ${index}` }));
}

describe("profiling", () => {
  it("is not there unless it is enabled", async (t) => {
    const ports = { clock: new ManualClock(), logger: new RecordingLogger() };
    const { ask } = await openOps(t, profilingRoutes({ enabled: false, contention: false }, ports));
    for (const path of ["/debug/pprof", "/debug/pprof/", "/debug/pprof/profile"]) {
      assert.match(await ask(get(path)), /^HTTP\/1\.1 404 .*404 page not found\n$/s);
    }
  });

  it("has an index that names what there is", async (t) => {
    const { ask } = await openProfiling(t);
    assert.match(
      await ask(get("/debug/pprof")),
      /^HTTP\/1\.1 301 Moved Permanently\r\n.*\r\nLocation: \/debug\/pprof\/\r\n/s,
    );
    const index = await ask(get("/debug/pprof/"));
    for (const name of ["profile", "heap", "heapsnapshot"]) {
      assert.match(index, new RegExp(`<a href="${name}[?"]`));
    }
  });

  for (const name of ["cmdline", "symbol", "trace", "goroutine", "x/y"]) {
    it(`does not know ${name}`, async (t) => {
      const { ask } = await openProfiling(t);
      assert.equal(await ask(get(`/debug/pprof/${name}`)), UNKNOWN);
    });
  }

  it("takes a CPU profile that names the busy function", async (t) => {
    const { ask, clock } = await openProfiling(t);
    const asked = ask(get("/debug/pprof/profile?seconds=5"));
    await whenRecording(clock);
    clock.advance(4_999);
    burnCpuForProfile();
    clock.advance(1);
    const answer = await asked;
    assert.match(
      answer,
      /\r\nContent-Disposition: attachment; filename="reachback\.cpuprofile"\r\n/,
    );
    const { nodes } = jsonOf(answer) as { nodes: { callFrame: { functionName: string } }[] };
    assert.ok(nodes.some(({ callFrame }) => callFrame.functionName === "burnCpuForProfile"));
  });

  it("takes a heap profile that names who allocated", async (t) => {
    const { ask, clock } = await openProfiling(t);
    const asked = ask(get("/debug/pprof/heap"));
    await whenRecording(clock);
    const kept = allocateForProfile();
    clock.advance(10_000);
    const answer = await asked;
    assert.equal(kept.length, 50_000);
    assert.ok("head" in (jsonOf(answer) as object));
    assert.match(answer, /"functionName":"allocateForProfile"/);
  });

  it("takes a heap snapshot", async (t) => {
    const { connect } = await openProfiling(t);
    const client = await connect();
    client.send(get("/debug/pprof/heapsnapshot", "Connection: close"));
    const answer = await client.readToEnd();
    assert.match(answer, /^HTTP\/1\.1 200 OK\r\n[^]*\{"snapshot":\{"meta":/);
    assert.ok(answer.endsWith("\r\n0\r\n\r\n"));
  });

  it("takes 30 seconds unless told otherwise, and one profile at a time", async (t) => {
    const { ask, clock } = await openProfiling(t);
    const first = ask(get("/debug/pprof/profile"));
    await whenRecording(clock);
    for (const name of ["profile", "heap", "heapsnapshot"]) {
      assert.match(
        await ask(get(`/debug/pprof/${name}`)),
        /^HTTP\/1\.1 503 .*another profile is being taken\n$/s,
      );
    }
    clock.advance(29_999);
    assert.equal(clock.pendingTimers, 1);
    clock.advance(1);
    assert.match(await first, /^HTTP\/1\.1 200 /);
  });

  for (const seconds of ["0", "301", "-1", "1.5", "x", "", "99999999999"]) {
    it(`refuses to take "${seconds}" seconds`, async (t) => {
      const { ask } = await openProfiling(t);
      assert.match(
        await ask(get(`/debug/pprof/profile?seconds=${seconds}`)),
        /^HTTP\/1\.1 400 .*seconds must be a whole number from 1 to 300\n$/s,
      );
    });
  }

  it("stops when the client leaves, so that the next one can start", async (t) => {
    const { connect, ask, clock } = await openProfiling(t);
    const client = await connect();
    client.send(get("/debug/pprof/profile?seconds=300"));
    await whenRecording(clock);
    client.socket.destroy();
    await once(client.socket, "close");
    while (clock.pendingTimers > 0) await new Promise((resolve) => setImmediate(resolve));
    const next = ask(get("/debug/pprof/heap?seconds=1"));
    await whenRecording(clock);
    clock.advance(1_000);
    assert.match(await next, /^HTTP\/1\.1 200 /);
  });

  it("gives what it has when the listener closes", async (t) => {
    const { connect, clock, listener } = await openProfiling(t);
    const client = await connect();
    client.send(get("/debug/pprof/profile?seconds=300"));
    await whenRecording(clock);
    const closed = listener.close();
    assert.match(await client.readToEnd(), /^HTTP\/1\.1 200 [^]*"nodes":\[/);
    await closed;
    assert.equal(clock.pendingTimers, 0);
  });

  it("says that contention profiling has no effect", () => {
    const logger = new RecordingLogger();
    profilingRoutes({ enabled: true, contention: true }, { clock: new ManualClock(), logger });
    assert.deepEqual(
      logger.lines.map(({ event, fields }) => [event, fields["flags"]]),
      [["flag.ignored", "--enable-contention-profiling"]],
    );
  });
});
