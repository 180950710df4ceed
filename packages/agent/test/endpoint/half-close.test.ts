import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { MetricRegistry, PacketType, endedByReset, silentLogger } from "@reachback/common";
import type { ConnectionId, DialId, Extension } from "@reachback/common";
import { ManualClock, readExposition } from "@reachback/common/testing";
import { until } from "../../../../test/support/cluster.ts";
import { EndpointConnection } from "../../src/endpoint/endpoint-connection.ts";
import { AgentMetrics } from "../../src/metrics.ts";
import { Tunnel } from "../../src/tunnel/tunnel.ts";
import { FakeCarrier } from "../tunnel/fake-carrier.ts";
import { TEST_FLOW } from "../tunnel/test-flow.ts";

const KIB = 1024;
const WINDOW = TEST_FLOW.limits.initialBytes;
const HALF_CLOSE_MS = 10_000;
const CLOSE_STALL_MS = 5_000;
const BOTH: readonly Extension[] = ["flow-control", "half-close"];
const connectionId = 1 as ConnectionId;

/** A connection to an endpoint of the test, with id 1. */
async function open(t: TestContext, extensions = BOTH) {
  const clock = new ManualClock();
  const registry = new MetricRegistry();
  const carrier = new FakeCarrier();
  const server = createServer({ allowHalfOpen: true });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const usedBefore = TEST_FLOW.budget.usedBytes;

  const tunnel = new Tunnel(
    {
      tunnelOpened: () => undefined,
      tunnelClosed: () => undefined,
      serverDraining: () => undefined,
      connectionGone: () => undefined,
    },
    {
      clock,
      logger: silentLogger,
      dialer: {
        dial: async (): Promise<Socket> => {
          const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
          await once(socket, "connect");
          return socket;
        },
      },
      metrics: new AgentMetrics(registry),
      socketLimits: { closeStallMs: CLOSE_STALL_MS },
      flow: TEST_FLOW,
      halfCloseTimeoutMs: HALF_CLOSE_MS,
    },
  );
  tunnel.attach(carrier);
  tunnel.opened([["reachback-extensions", extensions.join(",")]]);
  const accepted = once(server, "connection") as Promise<[Socket]>;
  tunnel.control({
    type: PacketType.DIAL_REQ,
    dialId: 9 as DialId,
    protocol: "tcp",
    address: "endpoint:80",
  });
  const [endpoint] = await accepted;
  const received: Buffer[] = [];
  const fate = { isEnded: false, isReset: false };
  endpoint.on("data", (piece: Buffer) => received.push(piece));
  endpoint.on("end", () => {
    if (endedByReset(endpoint)) fate.isReset = true;
    else fate.isEnded = true;
  });
  endpoint.on("error", () => {
    fate.isReset = true;
  });
  await until(() => carrier.sent.length === 1);
  carrier.sent.length = 0;
  t.after(() => {
    tunnel.end();
    endpoint.destroy();
    server.close();
  });

  const sentBytes = () => carrier.payloads.reduce((sum, { length }) => sum + length, 0);
  return {
    clock,
    carrier,
    tunnel,
    endpoint,
    fate,
    sentBytes,
    received: () => Buffer.concat(received).toString(),
    data: (text: string | Buffer) => {
      tunnel.data(connectionId, Buffer.from(text), true);
    },
    fin: () => {
      tunnel.control({ type: PacketType.FINISH, connectionId });
    },
    reset: () => {
      tunnel.control({ type: PacketType.RESET, connectionId, error: "client lost" });
    },
    closeRequest: () => {
      tunnel.control({ type: PacketType.CLOSE_REQ, connectionId });
    },
    credit: (bytes: number) => {
      tunnel.control({ type: PacketType.CREDIT, connectionId, bytes });
    },
    /** Ends and credit, without the data between. */
    words: () => carrier.sent.filter((line) => !/^(DATA|CREDIT)/.test(line)),
    /** Have the endpoint send all that there is credit for, and some more that waits here. */
    exhaust: async () => {
      // In two, or reading would stop exactly where the credit ends.
      endpoint.write(Buffer.alloc(WINDOW - 10));
      await until(() => sentBytes() === WINDOW - 10);
      endpoint.write(Buffer.alloc(20));
      await until(() => sentBytes() === WINDOW);
    },
    /** Nothing of the connection is left, and it was counted once, for this reason. */
    assertOver: async (reason: string) => {
      await until(() => tunnel.isIdle);
      assert.equal(tunnel.connectionCount, 0);
      assert.equal(clock.pendingTimers, 0);
      assert.equal(carrier.isReadingPaused, false);
      assert.equal(TEST_FLOW.budget.usedBytes, usedBefore);
      const closed = readExposition(await registry.exposition())
        .filter(({ name }) => name === "reachback_agent_connections_closed_total")
        .map(({ labels, value }) => `${labels["reason"]} ${value}`);
      assert.deepEqual(closed, [`${reason} 1`]);
    },
  };
}

describe("half-close at the agent, with a server that knows it", () => {
  it("server first: the endpoint sees an end behind the data, and goes on", async (t) => {
    const { endpoint, fate, data, fin, received, words, carrier, assertOver } = await open(t);
    data("question");
    fin();
    await until(() => fate.isEnded);
    assert.equal(received(), "question");
    assert.deepEqual(words(), []);
    endpoint.end("answer");
    await until(() => words().length > 0);
    assert.equal(Buffer.concat(carrier.payloads).toString(), "answer");
    assert.deepEqual(carrier.sent.at(-1), "CLOSE_RSP 1");
    await assertOver("endpoint_closed");
  });

  it("endpoint first: the server is told behind the data, and goes on", async (t) => {
    const { carrier, endpoint, fate, data, fin, received, words, assertOver } = await open(t);
    endpoint.end("greeting");
    await until(() => words().length > 0);
    assert.deepEqual(carrier.sent, ["DATA 1 8", "FINISH 1"]);
    data("thanks");
    fin();
    await until(() => fate.isEnded);
    assert.equal(received(), "thanks");
    await until(() => words().length > 1);
    assert.deepEqual(words(), ["FINISH 1", "CLOSE_RSP 1"]);
    await assertOver("server_closed");
  });

  it("sends the endpoint's end when there is credit for the data before it", async (t) => {
    const { carrier, endpoint, exhaust, credit, words, sentBytes } = await open(t);
    await exhaust();
    endpoint.end();
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    assert.deepEqual(words(), []);
    credit(1024);
    await until(() => words().length > 0);
    assert.equal(sentBytes(), WINDOW + 10);
    assert.equal(carrier.sent.at(-1), "FINISH 1");
  });

  it("drops what the server sends behind its end", async (t) => {
    const { data, fin, fate, received } = await open(t);
    data("all");
    fin();
    fin();
    data("more");
    await until(() => fate.isEnded);
    assert.equal(received(), "all");
  });

  it("closes both ways when it is asked to after either end", async (t) => {
    for (const first of ["server", "endpoint"] as const) {
      const { endpoint, fate, fin, closeRequest, words, assertOver } = await open(t);
      if (first === "server") fin();
      else endpoint.end();
      if (first === "endpoint") await until(() => words().length > 0);
      closeRequest();
      await until(() => fate.isEnded);
      endpoint.end();
      await until(() => words().includes("CLOSE_RSP 1"));
      await assertOver("server_closed");
    }
  });
});

describe("half-close at the agent, with an upstream server", () => {
  it("the endpoint's end closes the connection", async (t) => {
    const { carrier, endpoint, assertOver } = await open(t, []);
    endpoint.end("bye");
    await until(() => carrier.sent.length === 2);
    assert.deepEqual(carrier.sent, ["DATA 1 3", "CLOSE_RSP 1"]);
    await assertOver("endpoint_closed");
  });

  it("is sent no credit", async (t) => {
    const { carrier, data, received } = await open(t, []);
    data(Buffer.alloc(WINDOW));
    await until(() => received().length === WINDOW);
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    assert.deepEqual(carrier.sent, []);
  });
});

describe("a server that resets", () => {
  it("lets the endpoint have what came before, then a reset", async (t) => {
    const { clock, data, reset, received, fate, words, assertOver } = await open(t);
    data("half of it");
    reset();
    assert.deepEqual(words(), ['CLOSE_RSP 1 "reset by server"']);
    await until(() => received() === "half of it");
    clock.advance(1_000);
    await until(() => fate.isReset);
    assert.equal(fate.isEnded, false);
    await assertOver("server_reset");
  });

  it("need not give credit for what the endpoint still wanted to send", async (t) => {
    const { clock, exhaust, reset, words, sentBytes, assertOver } = await open(t);
    await exhaust();
    reset();
    assert.deepEqual(words(), ['CLOSE_RSP 1 "reset by server"']);
    assert.equal(sentBytes(), WINDOW);
    clock.advance(1_000);
    await assertOver("server_reset");
  });
});

describe("a server that nobody listens to any more", () => {
  it("is answered behind data without credit only if it waits for that", async (t) => {
    const { endpoint, fate, exhaust, closeRequest, credit, words, assertOver } = await open(t);
    await exhaust();
    closeRequest();
    await until(() => fate.isEnded);
    endpoint.end();
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    assert.deepEqual(words(), []);
    credit(1024);
    assert.deepEqual(words(), ["CLOSE_RSP 1"]);
    await assertOver("server_closed");
  });

  for (const when of ["at once", "later"] as const) {
    it(`is answered without credit if it says so twice, ${when}`, async (t) => {
      const { endpoint, fate, exhaust, closeRequest, words, sentBytes, assertOver } = await open(t);
      await exhaust();
      closeRequest();
      if (when === "at once") closeRequest();
      await until(() => fate.isEnded);
      endpoint.end();
      if (when === "later") closeRequest();
      await until(() => words().length > 0);
      assert.deepEqual(words(), ["CLOSE_RSP 1"]);
      assert.equal(sentBytes(), WINDOW);
      await assertOver("server_closed");
    });
  }
});

describe("flow control at the agent", () => {
  it("gives credit when the endpoint has taken bytes", async (t) => {
    const { carrier, data } = await open(t);
    data(Buffer.alloc(WINDOW / 2));
    await until(() => carrier.sent.length > 0);
    assert.deepEqual(carrier.sent, [`CREDIT 1 ${WINDOW / 2}`]);
  });

  it("cuts a connection whose server sends more than it may", async (t) => {
    const { endpoint, data, words, fate, assertOver } = await open(t);
    endpoint.pause();
    // In one piece, or the system takes some of it meanwhile.
    data(Buffer.alloc(WINDOW + 1));
    assert.deepEqual(words(), ['CLOSE_RSP 1 "flow control violated"']);
    endpoint.resume();
    await until(() => fate.isReset);
    await assertOver("protocol_error");
  });

  it("does not look at what all connections hold whenever one is closed", async (t) => {
    const { closeRequest, carrier } = await open(t);
    const looks = t.mock.getter(EndpointConnection.prototype, "queuedBytes");
    closeRequest();
    await until(() => carrier.sent.includes("CLOSE_RSP 1"));
    assert.equal(looks.mock.callCount(), 0);
  });

  it("stops reading the endpoint without credit, and holds little of it", async (t) => {
    const { endpoint, sentBytes, credit } = await open(t);
    endpoint.write(Buffer.alloc(16 * 1024 * KIB));
    await until(() => sentBytes() === WINDOW);
    for (let turn = 0; turn < 20; turn++) await nextTurn();
    credit(1024 * KIB * 1024);
    const atOnce = sentBytes() - WINDOW;
    // What a source may have waiting, and two reads as of one that brings much: LIMITS.md, "Flow control".
    assert.ok(atOnce <= (63 + 2 * 252) * KIB, `${atOnce} bytes waited`);
    await until(() => sentBytes() === 16 * 1024 * KIB);
  });
});

describe("silence behind the server's end", () => {
  it("ends the connection, and both sides are told", async (t) => {
    const { clock, endpoint, fate, fin, words, assertOver } = await open(t);
    fin();
    await until(() => fate.isEnded);
    clock.advance(HALF_CLOSE_MS - 1);
    assert.deepEqual(words(), []);
    clock.advance(1);
    assert.deepEqual(words(), ['CLOSE_RSP 1 "half-close timeout"']);
    endpoint.end();
    await assertOver("half_close_timeout");
  });

  it("is none while the endpoint says something", async (t) => {
    const { clock, endpoint, fin, words, sentBytes } = await open(t);
    fin();
    for (let turn = 1; turn <= 3; turn++) {
      clock.advance(HALF_CLOSE_MS - 1);
      endpoint.write("x");
      await until(() => sentBytes() === turn);
    }
    clock.advance(HALF_CLOSE_MS - 1);
    assert.deepEqual(words(), []);
  });

  it("is none while it is the client that has to take something", async (t) => {
    const { clock, exhaust, fin, words } = await open(t);
    await exhaust();
    fin();
    clock.advance(5 * HALF_CLOSE_MS);
    assert.deepEqual(words(), []);
  });
});

describe("a tunnel that is lost", () => {
  it("resets endpoints, whoever has finished", async (t) => {
    for (const state of ["open", "server finished", "endpoint finished"] as const) {
      const { endpoint, fate, fin, tunnel, words, assertOver } = await open(t);
      if (state === "server finished") fin();
      if (state === "endpoint finished") endpoint.end();
      if (state === "endpoint finished") await until(() => words().length > 0);
      tunnel.closed({ code: 14, message: "gone" });
      await until(() => fate.isReset || fate.isEnded);
      await assertOver("tunnel_lost");
    }
  });
});
