import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { exceptServerAlpn } from "@reachback/common";
import { ManualClock, RecordingLogger, SeededRandom } from "@reachback/common/testing";
import { startAgentServer } from "../support/agent-server.ts";
import type { AgentServer, AgentServerOptions } from "../support/agent-server.ts";
import { startEndpoint, startServer, until } from "../support/cluster.ts";
import { startHttp2Peer, startTlsPeer } from "../support/http2-peer.ts";
import { packets } from "../support/packet-stream.ts";
import { TcpBalancer } from "../support/tcp-balancer.ts";
import { startTrackedAgent } from "../support/tracked-agent.ts";
import { checkForLeaksAtEnd, openHandles } from "../support/tracked-clock.ts";

const FAST = { syncIntervalMs: 5, syncIntervalCapMs: 20 };

/** So many servers, each of which announces all of them. */
function startServers(
  t: TestContext,
  count: number,
  options: AgentServerOptions = {},
): Promise<AgentServer[]> {
  return Promise.all(
    Array.from({ length: count }, (_, index) =>
      startAgentServer(t, {
        serverId: `server-${index + 1}`,
        serverCount: String(count),
        ...options,
      }),
    ),
  );
}

/** How many tunnels each server has. */
function live(servers: readonly AgentServer[]): number[] {
  return servers.map(({ tunnels }) => tunnels.filter(({ isEnded }) => !isEnded).length);
}

checkForLeaksAtEnd();

describe("an agent that draws servers which it has", () => {
  const DRAWS = 8;

  /** What the first tunnel, and so many draws after it, offered in their handshakes. */
  async function offers(t: TestContext, headers: Record<string, string>): Promise<string[]> {
    const peer = await startHttp2Peer(t, {
      onRequest: ({ stream }) => {
        stream.respond({
          ":status": 200,
          "content-type": "application/grpc",
          serverid: "server-1",
          servercount: "4",
          ...headers,
        });
      },
    });
    await startTrackedAgent(t, peer.port, { syncIntervalMs: 1_000, syncIntervalCapMs: 10_000 });
    await until(() => peer.handshakes.length > DRAWS);
    return peer.handshakes.slice(0, 1 + DRAWS).map(({ protocols }) => protocols.join(" "));
  }

  it("names them to be turned away", async (t) => {
    const seen = await offers(t, {
      "reachback-revision": "1",
      "reachback-extensions": "turn-away",
    });
    assert.equal(seen[0], "h2");
    // Three attempts may begin before the first one is answered.
    const draws = new Set(seen.slice(3));
    assert.deepEqual(draws, new Set([`h2 ${exceptServerAlpn("server-1")}`]));
  });

  it("offers nothing but h2 where the server has not said that it turns away", async (t) => {
    const others = { "reachback-revision": "1", "reachback-extensions": "half-close" };
    for (const headers of [{}, others]) {
      assert.deepEqual(new Set(await offers(t, headers)), new Set(["h2"]));
    }
  });

  it("is turned away by ours without a tunnel, and without a warning of either", async (t) => {
    const logger = new RecordingLogger();
    const server = await startServer(t, { serverCount: 4 }, { logger });
    const balancer = new TcpBalancer([server.agentPort]);
    const pace = { syncIntervalMs: 1_000, syncIntervalCapMs: 10_000 };
    const { count, metric } = await startTrackedAgent(t, await balancer.listen(t), pace);
    const draws = 'reachback_agent_tunnel_attempts_total{outcome="duplicate"}';
    await until(async () => Number(await metric(draws)) > DRAWS);
    const tunnelCount = logger.lines.filter(({ event }) => event === "tunnel.opened").length;
    // Three attempts may begin before the first one is answered.
    assert.ok(tunnelCount <= 3, `${tunnelCount} tunnels`);
    assert.equal(count("tunnel.refused"), 0);
    const metrics = await fetch(`http://127.0.0.1:${server.adminPort}/metrics`, {
      headers: { connection: "close" },
    });
    const turnedAway = /^reachback_server_tunnels_turned_away_total (\d+)$/m;
    assert.ok(Number(turnedAway.exec(await metrics.text())?.[1]) > DRAWS - 3);
    assert.deepEqual(
      logger.lines.filter(({ level }) => level === "warn" || level === "error"),
      [],
    );
  });
});

describe("an agent before several servers", () => {
  for (const [name, choose] of [
    ["in turn", undefined],
    ["at random", randomChoice(3)],
  ] as const) {
    it(`has one tunnel to each when connections are spread ${name}`, async (t) => {
      const servers = await startServers(t, 3);
      const balancer = new TcpBalancer(
        servers.map(({ port }) => port),
        choose,
      );
      const { agent, count, metric } = await startTrackedAgent(t, await balancer.listen(t), FAST);
      await until(async () => (await metric("open_server_connections")) === "3");
      assert.deepEqual(live(servers), [1, 1, 1]);
      assert.equal(await metric("known_server_count"), "3");
      assert.equal(agent.isReady, true);
      // No more attempts, and every duplicate has been closed by the agent.
      const connectionCount = balancer.connectionCount;
      await sleep(60);
      assert.equal(balancer.connectionCount, connectionCount);
      assert.equal(connectionCount, 3 + count("tunnel.duplicate"));
      assert.equal(count("tunnel.lost"), 0);
      const lost = 'server_connection_failure_count{direction="from_server"}';
      assert.equal(await metric(lost), undefined);
    });
  }

  it("replaces exactly the tunnel that is lost", async (t) => {
    const servers = await startServers(t, 3);
    const balancer = new TcpBalancer(servers.map(({ port }) => port));
    const { logger, metric } = await startTrackedAgent(t, await balancer.listen(t), FAST);
    await until(() => live(servers).every((tunnels) => tunnels === 1));
    servers[1]!.stop();
    await until(() => live(servers)[1] === 0);
    const restarted = await startAgentServer(t, { serverId: "server-2b", serverCount: "3" });
    balancer.targets = [servers[0]!.port, restarted.port, servers[2]!.port];
    await until(() => restarted.tunnels.some(({ isEnded }) => !isEnded));
    // A duplicate that was drawn may still be on its way out.
    await until(() => live(servers).join() === "1,0,1");
    const lost = logger.lines.filter(({ event }) => event === "tunnel.lost");
    assert.deepEqual(
      lost.map(({ fields }) => fields["serverId"]),
      ["server-2"],
    );
    const failures = 'server_connection_failure_count{direction="from_server"}';
    assert.equal(await metric(failures), "1");
  });

  it("learns from any answer how many there are", async (t) => {
    const servers = await startServers(t, 3, { serverCount: "2" });
    const balancer = new TcpBalancer([servers[0]!.port]);
    const { metric } = await startTrackedAgent(t, await balancer.listen(t), FAST);
    await until(() => live(servers)[0] === 1);
    assert.equal(await metric("known_server_count"), "2");
    // The next one who is asked, a duplicate, says that there are more.
    for (const server of servers) server.serverCount = ["3"];
    await until(async () => (await metric("known_server_count")) === "3");
    balancer.targets = servers.map(({ port }) => port);
    await until(async () => (await metric("open_server_connections")) === "3");
    await until(() => live(servers).join() === "1,1,1");
  });

  it("closes a duplicate even if its server does not answer, within two seconds", async (t) => {
    const clock = new ManualClock(Date.now());
    const server = await startAgentServer(t, { serverCount: "2", answersEnd: false });
    const slow = { syncIntervalMs: 50_000, syncIntervalCapMs: 50_000 };
    const { agent, count } = await startTrackedAgent(t, server.port, slow, { clock });
    await until(() => agent.isReady);
    await until(() => count("tunnel.duplicate") === 1);
    await server.tunnels[1]!.ended;
    const handlesBefore = openHandles().length;
    clock.advance(1_999);
    await sleep(5);
    assert.equal(openHandles().length, handlesBefore);
    clock.advance(1);
    await until(() => openHandles().length < handlesBefore);
    assert.equal(server.tunnels[0]?.isEnded, false);
  });
});

describe("a tunnel that ends", () => {
  const ends: { name: string; end: (server: AgentServer) => void; reason: RegExp }[] = [
    {
      name: "the server ends it with status OK",
      end: (server) => {
        server.tunnels[0]!.end();
      },
      reason: /^OK: (OK)?$/,
    },
    {
      name: "the server ends it with an error",
      end: (server) => {
        server.tunnels[0]!.fail(8, "too much");
      },
      reason: /^ResourceExhausted: too much$/,
    },
    {
      name: "the connection is cut",
      end: (server) => {
        server.stop();
      },
      reason: /^(Unavailable|Canceled): /,
    },
  ];
  for (const { name, end, reason } of ends) {
    it(`is replaced within 1.1 sync intervals when ${name}`, async (t) => {
      const server = await startAgentServer(t);
      const balancer = new TcpBalancer([server.port]);
      const { agent, logger } = await startTrackedAgent(t, await balancer.listen(t), {
        syncIntervalMs: 300,
        syncIntervalCapMs: 3_000,
      });
      await server.next();
      await until(() => agent.isReady);
      const next = await startAgentServer(t);
      balancer.targets = [next.port];
      const lostAtMs = performance.now();
      end(server);
      await until(() => !agent.isReady);
      await next.next();
      const tookMs = performance.now() - lostAtMs;
      // Both the tick that was due and the attempt itself.
      assert.ok(tookMs < 330 + 250, `${tookMs} ms`);
      const lost = logger.lines.find(({ event }) => event === "tunnel.lost");
      assert.match(`${String(lost?.fields["code"])}: ${String(lost?.fields["error"])}`, reason);
    });
  }

  it("is found out by a ping when the server has gone without a word", async (t) => {
    const clock = new ManualClock(Date.now());
    const peer = await startHttp2Peer(t, {
      onRequest: ({ stream }) => {
        stream.respond({
          ":status": 200,
          "content-type": "application/grpc",
          serverid: "a",
          servercount: "1",
        });
      },
    });
    const balancer = new TcpBalancer([peer.port]);
    const { agent, logger } = await startTrackedAgent(
      t,
      await balancer.listen(t),
      // Below what upstream's servers allow, and this one may be one of them.
      { keepaliveTimeMs: 1_000 },
      { clock },
    );
    await until(() => agent.isReady);
    let pingCount = 0;
    peer.requests[0]!.session.on("ping", () => {
      pingCount++;
    });
    clock.advance(34_000);
    await sleep(5);
    assert.equal(pingCount, 0);
    clock.advance(1_000);
    await until(() => pingCount === 1);
    await sleep(5);
    balancer.freeze();
    for (let seconds = 0; seconds < 60 && agent.isReady; seconds++) {
      clock.advance(1_000);
      await sleep(1);
    }
    assert.equal(agent.isReady, false);
    const lost = logger.lines.find(({ event }) => event === "tunnel.lost");
    assert.match(String(lost?.fields["error"]), /nothing heard for \d+ s$/);
  });
});

describe("a server that takes its leave (GOAWAY)", () => {
  it("is served on, and another one sought", async (t) => {
    const server = await startAgentServer(t);
    const balancer = new TcpBalancer([server.port]);
    const { agent, metric } = await startTrackedAgent(t, await balancer.listen(t), FAST);
    const tunnel = await server.next();
    const echo = await startEndpoint(t, (socket) => socket.pipe(socket));
    tunnel.send(packets.dial(1, echo));
    assert.equal(await tunnel.next(), "DIAL_RSP 1 id 1");

    // The same server id: what restarted may well have it.
    const next = await startAgentServer(t);
    balancer.targets = [next.port];
    server.leave();
    const replacement = await next.next();
    assert.equal(agent.isReady, true);
    assert.equal(await metric("open_server_connections"), "2");
    tunnel.send(packets.data(1, "still there?"));
    assert.equal(await tunnel.next(), 'DATA 1 "still there?"');
    replacement.send(packets.dial(1, echo));
    assert.equal(await replacement.next(), "DIAL_RSP 1 id 1");
    assert.equal(await metric("open_endpoint_connections"), "2");

    tunnel.end();
    await until(async () => (await metric("open_server_connections")) === "1");
    assert.equal(await metric("open_endpoint_connections"), "1");
    replacement.send(packets.data(1, "alive"));
    assert.equal(await replacement.next(), 'DATA 1 "alive"');
  });

  it("is tried again when it did not take the call any more", async (t) => {
    // SETTINGS without content, then GOAWAY with 0 as the last stream.
    const frames = Buffer.from(
      "000000040000000000" + "000008070000000000" + "0000000000000000",
      "hex",
    );
    const port = await startTlsPeer(t, { ALPNProtocols: ["h2"] }, (socket) => {
      socket.once("data", () => socket.write(frames));
    });
    const { refusals } = await startTrackedAgent(t, port, FAST);
    await until(() => refusals().length >= 2);
    assert.match(refusals()[0] ?? "", /^answer: Unavailable: .*REFUSED_STREAM/);
  });
});

describe("an agent that stops", () => {
  it("ends its tunnels in an orderly way", async (t) => {
    const servers = await startServers(t, 2);
    const balancer = new TcpBalancer(servers.map(({ port }) => port));
    const { agent, count } = await startTrackedAgent(t, await balancer.listen(t), FAST);
    await until(() => live(servers).every((tunnels) => tunnels === 1));
    await agent.stop();
    await until(() => live(servers).every((tunnels) => tunnels === 0));
    assert.equal(agent.isReady, false);
    assert.equal(count("tunnel.lost"), 0);
  });

  it("waits two seconds for a server that does not answer, no longer", async (t) => {
    const clock = new ManualClock(Date.now());
    const server = await startAgentServer(t, { answersEnd: false });
    const { agent } = await startTrackedAgent(t, server.port, FAST, { clock });
    await until(() => agent.isReady);
    const handlesBefore = openHandles().length;
    let isStopped = false;
    const stopped = agent.stop().then(() => {
      isStopped = true;
    });
    await server.tunnels[0]!.ended;
    clock.advance(1_999);
    await sleep(5);
    assert.equal(isStopped, false);
    clock.advance(1);
    await stopped;
    assert.ok(openHandles().length < handlesBefore);
    assert.equal(clock.pendingTimers, 0);
  });

  it("leaves no attempt and no pause behind", async (t) => {
    const clock = new ManualClock(Date.now());
    const { agent, refusals } = await startTrackedAgent(t, 1, FAST, { clock });
    await until(() => refusals().length === 1);
    await agent.stop();
    assert.equal(clock.pendingTimers, 0);
    clock.advance(60_000);
    assert.equal(refusals().length, 1);
  });
});

function randomChoice(seed: number): (count: number) => number {
  const random = new SeededRandom(seed);
  return (count) => Math.floor(random.fraction() * count);
}
