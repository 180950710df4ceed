import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { systemClock } from "@reachback/common";
import { ManualClock, SeededRandom } from "@reachback/common/testing";
import { startServer, until } from "../support/cluster.ts";
import type { TestServer } from "../support/cluster.ts";
import { assertNothingLeft, valueOf, whatIsHeld } from "../support/gauges.ts";
import { connectAsAgent, connectAsFrontend, openProxy, packets } from "../support/packet-stream.ts";
import type { PacketStream } from "../support/packet-stream.ts";
import { connectRaw, connectRawTls } from "../support/raw-socket.ts";
import { startRelay } from "../support/relay.ts";

// Dials end: with their answer, at the deadline, when the frontend leaves, when the agent does. And
// whatever crosses on the way, no connection is left behind.

const CONNECT = "CONNECT endpoint:80 HTTP/1.1\r\nHost: endpoint:80\r\n\r\n";

async function setup(t: TestContext, options = {}) {
  const server = await startServer(t, options);
  return { server, agent: await connectAsAgent(t, server) };
}

describe("a dial that nobody answers", () => {
  it("ends at the deadline over gRPC, and a late success is closed", async (t) => {
    const { server, agent } = await setup(t, { backendDialTimeoutMs: 60 });
    const frontend = openProxy(t, server);
    frontend.send(packets.dial(5));
    assert.equal(await agent.next(), "DIAL_REQ 5 tcp endpoint:80");
    assert.equal(await frontend.next(), 'DIAL_RSP 5 "timed out waiting for backend dial"');
    assert.equal(await agent.next(), "DIAL_CLS 5");
    agent.send(packets.dialed(5, 1));
    assert.equal(await agent.next(), "CLOSE_REQ 1");
    agent.send(packets.closed(1));
    frontend.end();
    await frontend.status;
    assert.deepEqual(frontend.unread, []);
    await assertNothingLeft(server);
    const failures = (reason: string) =>
      valueOf(server.healthPort, "dial_failure_count", { reason });
    assert.equal(await failures("backend_dial_timeout"), 1);
    assert.equal(await failures("unrecognized_response"), 1);
  });

  it("ends at the deadline over CONNECT, and a late success is closed", async (t) => {
    const { server, agent } = await setup(t, { backendDialTimeoutMs: 60 });
    const client = await connectRaw(t, server.connectPath);
    client.write(CONNECT);
    const random = (await agent.nextPacket()).dialRequest?.random ?? "";
    assert.match((await client.whenFinished()).text, /^HTTP\/1.1 504 Gateway Timeout\r\n/);
    assert.equal(await agent.next(), `DIAL_CLS ${random}`);
    agent.send(packets.dialed(random, 1));
    assert.equal(await agent.next(), "CLOSE_REQ 1");
    await assertNothingLeft(server);
  });

  it("goes on for ever with a deadline of 0", async (t) => {
    const { server, agent } = await setup(t, { backendDialTimeoutMs: 0 });
    const frontend = openProxy(t, server).send(packets.dial(1));
    await agent.next();
    const client = await connectRaw(t, server.connectPath);
    client.write(CONNECT);
    const random = (await agent.nextPacket()).dialRequest?.random ?? "";
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal((await whatIsHeld(server.healthPort))["pendingDials"], 2);
    agent.send(packets.dialed(1, 1), packets.dialed(random, 2));
    assert.equal(await frontend.next(), "DIAL_RSP 1 id 1");
    await client.whenSaid("200 Connection Established");
  });

  it("is answered at once when the agent leaves", async (t) => {
    for (const leave of ["cancel", "end"] as const) {
      const { server, agent } = await setup(t, { backendDialTimeoutMs: 0 });
      const frontend = openProxy(t, server).send(packets.dial(1));
      const client = await connectRaw(t, server.connectPath);
      client.write(CONNECT);
      await agent.next();
      await agent.next();
      agent[leave]();
      assert.equal(await frontend.next(), 'DIAL_RSP 1 "agent connection lost"');
      assert.match((await client.whenFinished()).text, /^HTTP\/1.1 502 .*context canceled\r\n$/s);
      frontend.end();
      await assertNothingLeft(server, 0);
      const failures = await valueOf(server.healthPort, "dial_failure_count", {
        reason: "backend_close",
      });
      assert.equal(failures, 2);
    }
  });

  it("is answered at once when the agent's machine resets the connection", async (t) => {
    const server = await startServer(t, { backendDialTimeoutMs: 0 });
    const relay = await startRelay(t, server.agentPort);
    const agent = await connectAsAgent(t, server, { port: relay.port });
    const frontend = openProxy(t, server).send(packets.dial(1));
    await agent.next();
    relay.cut();
    assert.equal(await frontend.next(), 'DIAL_RSP 1 "agent connection lost"');
    frontend.end();
    await assertNothingLeft(server, 0);
  });

  it("is dropped without an answer when the agent says so", async (t) => {
    const { server, agent } = await setup(t);
    const frontend = openProxy(t, server).send(packets.dial(1));
    await agent.next();
    agent.send(packets.dialClose(1));
    assert.equal(await frontend.next(), "DIAL_CLS 1");
    frontend.send(packets.dial(2));
    assert.equal(await agent.next(), "DIAL_REQ 2 tcp endpoint:80");
    frontend.end();
    assert.equal(await agent.next(), "DIAL_CLS 2");
    await assertNothingLeft(server);
  });

  it("makes other tunnels preferred until it is answered after all", async (t) => {
    const clock = new ManualClock(systemClock.wallTimeMs());
    const server = await startServer(t, { backendDialTimeoutMs: 50 }, { clock });
    const lost = await connectAsAgent(t, server);
    const frontend = openProxy(t, server).send(packets.dial(1));
    assert.equal(await lost.next(), "DIAL_REQ 1 tcp endpoint:80");
    const successor = await connectAsAgent(t, server);
    clock.advance(50);
    assert.equal(await frontend.next(), 'DIAL_RSP 1 "timed out waiting for backend dial"');
    frontend.send(packets.dial(2));
    assert.equal(await successor.next(), "DIAL_REQ 2 tcp endpoint:80");
    assert.equal(await lost.next(), "DIAL_CLS 1");
    lost.send(packets.dialFailed(1, "late"));
    // The answer of the one comes behind the word of the other only if the server has read both.
    await until(async () => {
      const packetsRead = await valueOf(server.healthPort, "stream_packets_total", {
        segment: "from_agent",
      });
      return packetsRead === 1;
    });
    frontend.send(packets.dial(3));
    assert.equal(await lost.next(), "DIAL_REQ 3 tcp endpoint:80");
  });
});

describe("a dial of an address that no name can have", () => {
  it("is refused without asking an agent, whose tunnel it could cost", async (t) => {
    const { server, agent } = await setup(t);
    const frontend = openProxy(t, server).send(packets.dial(1, "a".repeat(4_194_000)));
    assert.equal(await frontend.next(), 'DIAL_RSP 1 "dial tcp: address too long"');
    const client = await connectRaw(t, server.connectPath);
    client.write(`CONNECT ${"a".repeat(100_000)}:80 HTTP/1.1\r\n\r\n`);
    const { text } = await client.whenFinished();
    assert.match(text, /^HTTP\/1.1 502 Bad Gateway\r\n.*\r\n\r\ndial tcp: address too long$/s);
    const longest = `${"a".repeat(60_000)}:80`;
    openProxy(t, server).send(packets.dial(2, longest));
    assert.equal(await agent.next(), `DIAL_REQ 2 tcp ${longest}`);
  });
});

describe("a frontend that leaves", () => {
  type Leave = (frontend: PacketStream, closeConnection: () => void) => void;
  const ways: Readonly<Record<string, Leave>> = {
    "finishes the stream": (frontend) => {
      frontend.end();
    },
    "cancels the stream": (frontend) => {
      frontend.cancel();
    },
    "loses its connection": (_frontend, cut) => {
      cut();
    },
  };
  for (const [way, leave] of Object.entries(ways)) {
    it(`and ${way} drops what it had, at any point`, async (t) => {
      const { server, agent } = await setup(t, { backendDialTimeoutMs: 0 });
      const relay = await startRelay(t, server.grpcPath);
      const open = () => openProxy(t, { ...server, relayPort: relay.port });
      const go = async (frontend: PacketStream) => {
        leave(frontend, () => {
          relay.cut();
        });
        await frontend.status;
      };

      let frontend = open();
      await until(async () => (await whatIsHeld(server.healthPort))["proxyStreams"] === 1);
      await go(frontend);

      frontend = open().send(packets.dial(1));
      await agent.next();
      await go(frontend);
      assert.equal(await agent.next(), "DIAL_CLS 1");

      frontend = open().send(packets.dial(2));
      await agent.next();
      agent.send(packets.dialed(2, 2));
      await frontend.next();
      await go(frontend);
      assert.equal(await agent.next(), "CLOSE_REQ 2");
      // The answer to that finds nobody any more.
      agent.send(packets.data(2, "too late"), packets.closed(2));
      assert.equal(await agent.next(), "CLOSE_REQ 2");

      frontend = open().send(packets.dial(3));
      await agent.next();
      agent.send(packets.dialed(3, 3));
      await frontend.next();
      frontend.send(packets.data(3, "x"), packets.close(3));
      await agent.next();
      assert.equal(await agent.next(), "CLOSE_REQ 3");
      await go(frontend);

      frontend = open().send(packets.dial(4), packets.dial(5));
      await agent.next();
      await agent.next();
      agent.send(packets.dialed(4, 4));
      await frontend.next();
      await go(frontend);
      assert.deepEqual([await agent.next(), await agent.next()].sort(), [
        "CLOSE_REQ 4",
        "DIAL_CLS 5",
      ]);
      await assertNothingLeft(server);
      assert.deepEqual(agent.unread, []);
    });
  }

  const transports = {
    "a Unix socket": (t: TestContext, server: TestServer) => connectRaw(t, server.connectPath),
    "mutual TLS": (t: TestContext, server: TestServer) => connectRawTls(t, server.connectPort),
  };
  for (const [transport, connect] of Object.entries(transports)) {
    it(`on ${transport} as a CONNECT client drops its dial at once`, async (t) => {
      const { server, agent } = await setup(t, { backendDialTimeoutMs: 0 });
      for (const leave of ["end", "destroy"] as const) {
        const client = await connect(t, server);
        client.write(CONNECT);
        const random = (await agent.nextPacket()).dialRequest?.random ?? "";
        client.socket[leave]();
        assert.equal(await agent.next(), `DIAL_CLS ${random}`);
        agent.send(packets.dialed(random, 1));
        assert.equal(await agent.next(), "CLOSE_REQ 1");
      }
      await assertNothingLeft(server);
      const failures = await valueOf(server.healthPort, "dial_failure_count", {
        reason: "frontend_close",
      });
      assert.equal(failures, 2);
    });
  }

  it("as a CONNECT client that ends behind its first bytes takes its request back", async (t) => {
    const { server, agent } = await setup(t);
    const client = await connectRaw(t, server.connectPath);
    client.socket.end(`${CONNECT}all of it`);
    const random = (await agent.nextPacket()).dialRequest?.random ?? "";
    assert.equal(await agent.next(), `DIAL_CLS ${random}`);
    assert.equal((await client.whenFinished()).text, "");
    await assertNothingLeft(server);
  });
});

describe("packets at random, from everybody at once", () => {
  it("cost nobody but those who sent them, and leave nothing", async (t) => {
    const server = await startServer(t, { backendDialTimeoutMs: 20 });
    const random = new SeededRandom(5);
    const upTo = (limit: number) => Math.floor(random.fraction() * limit);
    /** Any packet, with ids that are likely to mean something to somebody. */
    const anyPacket = () => {
      const id = upTo(6) - 1;
      const dialId = upTo(6);
      const makers = [
        () => packets.dial(dialId, `host-${upTo(3)}:80`),
        () => packets.dialed(dialId, id),
        () => packets.dialFailed(dialId, "no luck"),
        () => packets.dialClose(dialId),
        () => packets.data(id, "x".repeat(upTo(3))),
        () => packets.close(id),
        () => packets.closed(id, upTo(2) === 0 ? "" : "broken"),
        () => ({ type: "DRAIN" }),
      ];
      return makers[upTo(makers.length)]?.() ?? packets.drain();
    };
    for (let round = 0; round < 5; round++) {
      const frontends = connectAsFrontend(t, server);
      const agents = await Promise.all(
        ["a", "a", "b"].map((agentId) => connectAsAgent(t, server, { agentId })),
      );
      const streams = Array.from({ length: 20 }, () => frontends.open().send(packets.dial(1)));
      for (let step = 0; step < 600; step++) {
        const streamsOrAgents = upTo(2) === 0 ? streams : agents;
        streamsOrAgents[upTo(streamsOrAgents.length)]?.send(anyPacket());
        if (step % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      for (const stream of [...streams, ...agents]) {
        if (upTo(2) === 0) stream.end();
        else stream.cancel();
      }
      await Promise.all([...streams, ...agents].map((stream) => stream.status));
    }
    await assertNothingLeft(server, 0);
    const agent = await connectAsAgent(t, server);
    const frontend = openProxy(t, server).send(packets.dial(1));
    await agent.next();
    agent.send(packets.dialed(1, 1));
    // In time or not: the deadline is short.
    assert.match(await frontend.next(), /^DIAL_RSP 1 (id 1|"timed out waiting for backend dial")$/);
  });
});

describe("a dial that is given up while its answer is on the way", () => {
  it("closes what has just been opened when DIAL_CLS comes behind the answer", async (t) => {
    const { server, agent } = await setup(t);
    const frontend = openProxy(t, server).send(packets.dial(1));
    await agent.next();
    agent.send(packets.dialed(1, 1));
    await frontend.next();
    frontend.send(packets.dialClose(1));
    assert.equal(await agent.next(), "CLOSE_REQ 1");
    assert.equal(await frontend.next(), "CLOSE_RSP 1");
    frontend.send(packets.dialClose(1), packets.dialClose(7));
    frontend.end();
    await assertNothingLeft(server);
    assert.deepEqual(agent.unread, []);
  });

  it("leaves nothing open, however the two race", async (t) => {
    const { server, agent } = await setup(t, { backendDialTimeoutMs: 0 });
    const random = new SeededRandom(11);
    /** Connections that the agent has opened and nobody has closed. */
    const open = new Set<string>();
    let lastId = 0;
    agent.serve(({ type, dialRequest, closeRequest }) => {
      const dialId = dialRequest?.random ?? "";
      if (type === "DIAL_REQ") {
        const answer = () => {
          const id = String(++lastId);
          open.add(id);
          agent.send(packets.dialed(dialId, id));
          if (random.fraction() < 0.3) agent.send(packets.data(id, "speaks first"));
        };
        const choice = random.fraction();
        if (choice < 0.4) answer();
        else if (choice < 0.8) setImmediate(answer);
        else setTimeout(answer, choice * 5);
      } else if (type === "CLOSE_REQ") {
        const { connectID = "" } = closeRequest ?? {};
        if (open.delete(connectID)) agent.send(packets.closed(connectID));
      }
    });
    const shared = connectAsFrontend(t, server);
    const grpcClient = async (index: number) => {
      const frontend = shared.open().send(packets.dial(index + 1));
      await pause(random);
      const choice = random.fraction();
      if (choice < 0.4) frontend.send(packets.dialClose(index + 1)).end();
      else if (choice < 0.6) frontend.end();
      else frontend.cancel();
      await frontend.status;
    };
    const connectClient = async () => {
      const client = await connectRaw(t, server.connectPath);
      client.write(CONNECT);
      await pause(random);
      if (random.fraction() < 0.5) client.socket.end();
      else client.socket.destroy();
    };
    await Promise.all(
      Array.from({ length: 600 }, (_, index) =>
        index % 2 === 0 ? grpcClient(index) : connectClient(),
      ),
    );
    await until(() => open.size === 0 && lastId > 0).catch(() => undefined);
    assert.deepEqual([...open], []);
    await assertNothingLeft(server);
  });
});

/** Nothing, a turn of the event loop, or a few milliseconds. */
async function pause(random: SeededRandom): Promise<void> {
  const choice = random.fraction();
  if (choice < 0.2) return;
  if (choice < 0.5) await new Promise((resolve) => setImmediate(resolve));
  else await new Promise((resolve) => setTimeout(resolve, choice * 8));
}
