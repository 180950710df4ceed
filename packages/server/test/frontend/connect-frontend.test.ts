import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { MetricRegistry, PacketType, silentLogger } from "@reachback/common";
import type { Extension } from "@reachback/common";
import { ManualClock, SeededRandom } from "@reachback/common/testing";
import { BackendRegistry } from "../../src/backend/backend-registry.ts";
import { DialBroker } from "../../src/dial/dial-broker.ts";
import { ConnectFrontend } from "../../src/frontend/connect-frontend.ts";
import { ServerMetrics } from "../../src/metrics.ts";
import { NO_LIMITS, TEST_LIMITS, connectionId, fakeAgent } from "../fake-agent.ts";

// The CONNECT frontend on real sockets, with a clock that the test moves.

const LIMITS = { headTimeoutMs: 60_000, maxHeadBytes: 2_000, lingerMs: 5_000 };
const REQUEST = "CONNECT endpoint:80 HTTP/1.1\r\n\r\n";

async function setup(t: TestContext, extensions: readonly Extension[] = []) {
  const clock = new ManualClock();
  const registry = new BackendRegistry(["default"], { zone: "", random: new SeededRandom(1) });
  const agent = fakeAgent({ extensions });
  registry.add(agent.backend);
  const metrics = new ServerMetrics(new MetricRegistry());
  const frontend = new ConnectFrontend(
    { ...LIMITS, socketLimits: { closeStallMs: 10_000 } },
    new DialBroker(registry, NO_LIMITS, {
      clock,
      metrics,
      logger: silentLogger,
      halfCloseTimeoutMs: 10_000,
      connectionEnded: () => undefined,
    }),
    clock,
    new SeededRandom(2),
  );
  const folder = mkdtempSync(join(tmpdir(), "reachback-"));
  const path = join(folder, "s");
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    frontend.accept(socket);
  }).listen(path);
  await once(server, "listening");
  const clients: Socket[] = [];
  t.after(() => {
    frontend.destroy();
    for (const client of clients) client.destroy();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const open = async (allowHalfOpen = false) => {
    const socket = connect({ path, allowHalfOpen });
    clients.push(socket);
    let text = "";
    let isOver = false;
    socket.on("data", (piece) => (text += String(piece)));
    socket.on("error", () => undefined);
    for (const event of ["end", "close"]) socket.on(event, () => (isOver = true));
    await once(socket, "connect");
    await settle();
    return {
      socket,
      /** Write, and let the server read it. */
      say: async (request: string) => {
        socket.write(request);
        await settle();
      },
      text: () => text,
      isOver: () => isOver,
    };
  };
  return { clock, frontend, agent, open };
}

/** Let everything that is on its way within this process arrive. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

describe("ConnectFrontend", () => {
  it("waits a minute for a head, however slowly it comes, and not a millisecond more", async (t) => {
    const { clock, open } = await setup(t);
    const silent = await open();
    const slow = await open();
    await slow.say("CONNECT endpoint:80 HTTP/1.1\r\nX-Slow: ");
    for (let second = 0; second < 59; second++) {
      clock.advance(1_000);
      await slow.say("z");
    }
    clock.advance(999);
    await settle();
    assert.deepEqual([silent.isOver(), slow.isOver()], [false, false]);
    clock.advance(1);
    await settle();
    assert.deepEqual([silent.isOver(), slow.isOver()], [true, true]);
    assert.deepEqual([silent.text(), slow.text()], ["", ""]);
    assert.equal(clock.pendingTimers, 0);
  });

  it("waits as long for another head behind an answer", async (t) => {
    const { clock, open } = await setup(t);
    const client = await open();
    clock.advance(50_000);
    await client.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert.match(client.text(), /^HTTP\/1.1 405 /);
    clock.advance(59_999);
    await settle();
    assert.equal(client.isOver(), false);
    clock.advance(1);
    await settle();
    assert.equal(client.isOver(), true);
    assert.equal(clock.pendingTimers, 0);
  });

  it("does not wait for ever for a client that does not take its answers", async (t) => {
    const { clock, open } = await setup(t);
    const client = await open();
    client.socket.pause();
    await client.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20_000));
    clock.advance(60_000);
    await settle();
    client.socket.resume();
    await settle();
    assert.equal(client.isOver(), true);
    assert.equal(clock.pendingTimers, 0);
  });

  it("takes requests that come in one segment one by one, the tunnel's bytes last", async (t) => {
    const { agent, open } = await setup(t);
    const client = await open();
    const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    await client.say(`${get}${get}${REQUEST}GET / HTTP/1.1\r\n\r\n`);
    assert.equal(client.text().split("HTTP/1.1 405 ").length - 1, 2);
    const [request] = agent.carrier.sent;
    assert.ok(request !== undefined && "dialId" in request);
    agent.backend.control({
      type: PacketType.DIAL_RSP,
      dialId: request.dialId,
      connectionId: connectionId(1),
      error: "",
    });
    await settle();
    assert.ok(client.text().endsWith("HTTP/1.1 200 Connection Established\r\n\r\n"));
    assert.deepEqual(agent.carrier.sent[1], {
      data: "GET / HTTP/1.1\r\n\r\n",
      connectionId: 1,
    });
  });

  it("reads bare line feeds and folded lines, as Go does", async (t) => {
    const { frontend, open } = await setup(t);
    const client = await open();
    await client.say("CONNECT endpoint:80 HTTP/1.1\nHost: x\nX-A: a\n b\n\n");
    assert.equal(frontend.requestCount, 1);
    assert.equal(client.text(), "");
  });

  for (const [version, status] of [
    ["1.2", "405 Method Not Allowed"],
    ["2.0", "505 HTTP Version Not Supported: unsupported protocol version"],
    ["9.9", "505 HTTP Version Not Supported: unsupported protocol version"],
  ] as const) {
    it(`answers GET of HTTP/${version} with ${status}`, async (t) => {
      const { open } = await setup(t);
      const client = await open();
      await client.say(`GET / HTTP/${version}\r\nHost: x\r\n\r\n`);
      assert.ok(client.text().startsWith(`HTTP/1.1 ${status}\r\n`), client.text());
    });
  }

  it("takes a head up to its limit, and refuses a larger one", async (t) => {
    const { frontend, open } = await setup(t);
    const largest = await open();
    await largest.say(REQUEST.replace("\r\n\r\n", `\r\nX-A: ${"a".repeat(1_900)}\r\n\r\n`));
    assert.equal(frontend.requestCount, 1);
    const larger = await open();
    await larger.say(REQUEST.replace("\r\n\r\n", `\r\nX-A: ${"a".repeat(2_100)}\r\n\r\n`));
    assert.match(larger.text(), /^HTTP\/1.1 431 Request Header Fields Too Large\r\n/);
    assert.equal(larger.isOver(), true);
    assert.equal(frontend.requestCount, 1);
  });

  it("gives a refused client a moment to take the answer, whatever it still sends", async (t) => {
    const { clock, open } = await setup(t);
    const client = await open(true);
    await client.say("nonsense\r\n\r\n");
    assert.match(client.text(), /^HTTP\/1.1 400 Bad Request\r\n/);
    await client.say("more nonsense\r\n\r\n");
    assert.equal(clock.pendingTimers, 1);
    let isGone = false;
    client.socket.on("close", () => (isGone = true));
    client.socket.on("error", () => (isGone = true));
    clock.advance(4_999);
    await client.say("x");
    assert.equal(isGone, false);
    clock.advance(1);
    await settle();
    await client.say("x");
    await settle();
    assert.equal(isGone, true);
    assert.equal(clock.pendingTimers, 0);
  });

  it("holds no timer for a tunnel", async (t) => {
    const { clock, frontend, agent, open } = await setup(t);
    const client = await open();
    assert.equal(clock.pendingTimers, 1);
    await client.say(REQUEST);
    // The one for the head is gone, the agent has one for its answer.
    assert.equal(clock.pendingTimers, 1);
    clock.advance(6_000);
    assert.equal(clock.pendingTimers, 0);
    assert.deepEqual([frontend.requestCount, agent.backend.pendingDialCount], [1, 1]);
    client.socket.destroy();
    await settle();
    clock.advance(10_000);
    await settle();
    assert.deepEqual([frontend.requestCount, agent.backend.pendingDialCount], [0, 0]);
    assert.equal(clock.pendingTimers, 0);
  });

  it("counts what a client has not taken towards the budgets of windows, until the client is gone", async (t) => {
    const { clock, agent, open } = await setup(t, ["flow-control"]);
    const client = await open();
    client.socket.pause();
    await client.say(REQUEST);
    const [request] = agent.carrier.sent;
    assert.ok(request !== undefined && "dialId" in request);
    const id = { connectionId: connectionId(1) };
    agent.backend.control({
      type: PacketType.DIAL_RSP,
      dialId: request.dialId,
      ...id,
      error: "",
    });
    // More than a socket takes whose reader has stopped.
    for (let creditBytes = TEST_LIMITS.initialBytes; creditBytes > 0;) {
      agent.carrier.sent.length = 0;
      agent.backend.data(id.connectionId, Buffer.alloc(creditBytes), true);
      await settle();
      creditBytes = 0;
      for (const packet of agent.carrier.sent) if ("bytes" in packet) creditBytes += packet.bytes;
    }
    agent.backend.control({ type: PacketType.CLOSE_RSP, ...id, error: "" });
    await settle();
    assert.equal(agent.backend.connectionCount, 0);
    assert.ok(agent.budget.usedBytes > 0);
    clock.advance(10_000);
    await settle();
    assert.equal(agent.budget.usedBytes, 0);
    assert.equal(clock.pendingTimers, 0);
  });

  it("closes what has asked for nothing, and cuts the rest only when told to", async (t) => {
    const { frontend, agent, open } = await setup(t);
    const [idle, half, tunnel] = [await open(), await open(), await open()];
    await half.say("CONNECT endp");
    await tunnel.say(REQUEST);
    frontend.close();
    await settle();
    assert.deepEqual([idle.isOver(), half.isOver(), tunnel.isOver()], [true, true, false]);
    frontend.destroy();
    await settle();
    assert.equal(tunnel.isOver(), true);
    assert.equal(frontend.requestCount, 0);
    assert.equal(agent.backend.pendingDialCount, 0);
  });

  it("answers a request that is cut off, and not a client that says nothing", async (t) => {
    const { clock, open } = await setup(t);
    const [cut, silent] = [await open(true), await open(true)];
    cut.socket.end("CONNECT endpoint:80 HTTP/1.1\r\nHost");
    silent.socket.end();
    await settle();
    assert.match(cut.text(), /^HTTP\/1.1 400 Bad Request\r\n/);
    assert.equal(silent.text(), "");
    assert.deepEqual([cut.isOver(), silent.isOver()], [true, true]);
    assert.equal(clock.pendingTimers, 0);
  });
});
