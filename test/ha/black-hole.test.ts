import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { clientsOf, startEndpoint, startServer, statusOf, until } from "../support/cluster.ts";
import { startRelay } from "../support/relay.ts";
import { startTrackedAgent } from "../support/tracked-agent.ts";

/** The defaults of both programs. */
const KEEPALIVE = { keepaliveTimeMs: 15_000, keepaliveTimeoutMs: 10_000 };

describe("a black hole between agent and server", () => {
  it("is noticed within 30 s, and overcome 5 s after it is gone", async (t) => {
    const server = await startServer(t, KEEPALIVE);
    const relay = await startRelay(t, server.agentPort);
    const { agent } = await startTrackedAgent(t, relay.port, {
      ...KEEPALIVE,
      syncIntervalMs: 1_000,
      syncIntervalCapMs: 10_000,
      readyMinServers: "all",
    });
    await until(() => agent.isReady);
    let endpointSockets = 0;
    const endpoint = await startEndpoint(t, (socket) => {
      endpointSockets++;
      socket.once("close", () => endpointSockets--);
      socket.pipe(socket);
    });
    const clients = clientsOf(server);
    const streams = await Promise.all([
      clients.grpcUnix.dial(endpoint),
      clients.connectTls.dial(endpoint),
    ]);
    const ends = streams.map(async (stream) => {
      stream.on("error", () => undefined);
      stream.resume();
      await new Promise((resolve) => stream.once("close", resolve));
    });
    await until(() => endpointSockets === 2);

    relay.freeze();
    const frozenAtMs = performance.now();
    await Promise.all(ends);
    const closedMs = performance.now() - frozenAtMs;
    t.diagnostic(`frontends closed after ${Math.round(closedMs)} ms`);
    assert.ok(closedMs < 30_000);
    // Each tunnel is noticed by itself.
    while ((await statusOf(server.healthPort, "/readyz")) !== 500) {
      assert.ok(performance.now() - frozenAtMs < 30_000, "still ready 30 s later");
      await sleep(20);
    }
    await assert.rejects(clients.grpcUnix.dial(endpoint), /No agent available/);

    relay.thaw();
    const thawedAtMs = performance.now();
    for (;;) {
      if ((await statusOf(server.healthPort, "/readyz")) === 200 && agent.isReady) break;
      assert.ok(performance.now() - thawedAtMs < 5_000, "not healthy 5 s after the hole is gone");
      await sleep(20);
    }
    t.diagnostic(`healthy after ${Math.round(performance.now() - thawedAtMs)} ms`);
    const stream = await clients.grpcUnix.dial(endpoint);
    stream.write("hello");
    const [piece] = (await once(stream, "data")) as [Buffer];
    assert.equal(piece.toString(), "hello");
    stream.destroy();
    await until(() => endpointSockets === 0);
  });
});
