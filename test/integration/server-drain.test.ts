import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { systemClock } from "@reachback/common";
import { ManualClock, RecordingLogger } from "@reachback/common/testing";
import {
  WORKERS,
  clientsOf,
  startEndpoint,
  startServer,
  statusOf,
  until,
} from "../support/cluster.ts";
import { connectAsAgent, openProxy, packets } from "../support/packet-stream.ts";
import { startTrackedAgent } from "../support/tracked-agent.ts";

// A server that takes its leave, with time to do so.

describe("a server that is told to stop", () => {
  it("tells agents that know of it, serves on for a while, and then waits for what is open", async (t) => {
    const logger = new RecordingLogger();
    const clock = new ManualClock(systemClock.wallTimeMs());
    const server = await startServer(
      t,
      { gracefulShutdownTimeoutMs: 20_000, shutdownDelayMs: 400 },
      { logger, clock },
    );
    const extensions = "server-drain";
    const agent = await connectAsAgent(t, server, { agentId: "ours", extensions });
    assert.equal((await agent.headers).get("reachback-extensions")[0], "server-drain");
    const upstreams = await connectAsAgent(t, server, { agentId: "upstream's" });

    const stopped = server.server.stop();
    assert.equal(await agent.next(), "DRAIN");
    assert.equal(await statusOf(server.healthPort, "/readyz"), 500);
    assert.equal(await statusOf(server.healthPort, "/livez"), 200);
    const late = await connectAsAgent(t, server, { agentId: "late", extensions });
    assert.equal(await late.next(), "DRAIN");

    // Whoever does not know yet is served, by any agent.
    let served: string[] = [];
    for (const each of [agent, upstreams, late]) {
      each.serve(({ dialRequest }) => {
        if (dialRequest?.random === undefined) return;
        served = [...served, dialRequest.random];
        each.send(packets.dialed(dialRequest.random, 1));
        each.send(packets.data(1, "hello"));
      });
    }
    const frontend = openProxy(t, server).send(packets.dial(1));
    assert.equal(await frontend.next(), "DIAL_RSP 1 id 1");
    assert.equal(await frontend.next(), 'DATA 1 "hello"');
    assert.deepEqual(served, ["1"]);
    clock.advance(399);
    const later = await connectAsAgent(t, server, { agentId: "later", extensions });
    assert.equal(await later.next(), "DRAIN");
    clock.advance(1);
    await until(() => logger.lines.some(({ event }) => event === "shutdown.waiting"));

    for (const each of [agent, upstreams, late]) each.send(packets.closed(1));
    assert.equal(await frontend.next(), "CLOSE_RSP 1");
    await stopped;
    for (const each of [agent, upstreams, late, later]) assert.equal((await each.status).code, 0);
    const events = logger.lines
      .map(({ event }) => event)
      .filter((event) => event.startsWith("shut"));
    assert.deepEqual(events, ["shutdown.draining", "shutdown.waiting"]);
  });

  it("serves on for no longer than it may take in all", async (t) => {
    const server = await startServer(t, {
      gracefulShutdownTimeoutMs: 80,
      shutdownDelayMs: 5_000,
    });
    const startedMs = performance.now();
    await server.server.stop();
    const tookMs = performance.now() - startedMs;
    assert.ok(tookMs >= 79 && tookMs < 1_500, `${tookMs} ms`);
  });

  it("at once tells no agent that it is about to", async (t) => {
    const server = await startServer(t, { shutdownDelayMs: 5_000 });
    const agent = await connectAsAgent(t, server, { extensions: "server-drain" });
    await server.server.stop();
    assert.deepEqual([(await agent.status).code, agent.unread], [0, []]);
  });
});

describe("an agent whose server is about to leave", () => {
  it("keeps the tunnel, counts it no more, and is back when the server is", async (t) => {
    const clock = new ManualClock(systemClock.wallTimeMs());
    const leaving = await startServer(
      t,
      { gracefulShutdownTimeoutMs: 20_000, shutdownDelayMs: 300 },
      { clock },
    );
    const staying = await startServer(t, { serverId: "server-2" });
    const { agent, count, metric } = await startTrackedAgent(t, 0, {
      serverDiscovery: "list",
      servers: [leaving, staying].map(({ agentPort }) => ({
        host: "127.0.0.1",
        port: agentPort,
        name: "127.0.0.1",
      })),
      readyMinServers: "all",
    });
    await until(() => agent.isReady);
    const endpoint = await startEndpoint(t, (socket) => socket.pipe(socket));
    const stream = await clientsOf(leaving).grpcUnix.dial(endpoint);

    const stopped = leaving.server.stop();
    await until(() => count("tunnel.draining") === 1);
    assert.equal(agent.isReady, false);
    assert.equal(await metric("reachback_agent_connected_servers"), "1");
    assert.equal(await metric("open_server_connections"), "2");
    // Also after the attempts to connect that lead to the same server again.
    await until(() => count("tunnel.refused") > 0);
    for (const word of ["still", "there"]) {
      stream.write(word);
      const [piece] = (await once(stream, "data")) as [Buffer];
      assert.equal(piece.toString(), word);
    }
    stream.end();
    stream.resume();
    await once(stream, "close");
    clock.advance(300);
    await stopped;
    await until(async () => (await metric("open_server_connections")) === "1");

    const { agentPort } = leaving;
    await startServer(t, { serverId: "server-3", agentPort });
    await until(() => agent.isReady);
    // Of several workers, each may be tried before the agent knows that all of them leave.
    assert.ok(count("tunnel.lost") <= WORKERS);
  });
});
