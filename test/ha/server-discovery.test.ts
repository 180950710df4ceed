import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Duplex } from "node:stream";
import { startNameServer } from "../../packages/agent/test/lookup/fake-name-server.ts";
import { clientsOf, startEndpoint, startServer } from "../support/cluster.ts";
import type { TestServer } from "../support/cluster.ts";
import { createTestPki } from "../support/pki.ts";
import { startTrackedAgent } from "../support/tracked-agent.ts";

const NAME = "servers.test";

/** Servers on 127.0.0.1, 127.0.0.2 and so on, at one port. */
async function startServers(t: TestContext, count: number): Promise<TestServer[]> {
  const pki = createTestPki();
  const certificate = pki.issue({ ca: pki.agentCa, sans: [NAME] });
  const servers: TestServer[] = [];
  for (let number = 1; number <= count; number++) {
    servers.push(
      await startServer(t, {
        serverId: `server-${number}`,
        agentBindAddress: `127.0.0.${number}`,
        agentPort: servers[0]?.agentPort ?? 0,
        clusterCertPath: certificate.certPath,
        clusterKeyPath: certificate.keyPath,
      }),
    );
  }
  return servers;
}

/** Sends a number every few milliseconds and checks that all come back in order. */
async function startStream(t: TestContext, server: TestServer, endpoint: string) {
  const connection: Duplex = await clientsOf(server).grpcUnix.dial(endpoint);
  let sent = 0;
  let received = "";
  let failure: Error | undefined;
  connection.on("data", (piece: Buffer) => {
    received += piece.toString();
  });
  connection.on("error", (error) => {
    failure = error;
  });
  const timer = setInterval(() => connection.write(`${sent++} `), 5);
  t.after(() => {
    clearInterval(timer);
    connection.destroy();
  });
  return {
    /** That everything sent so far is echoed. */
    check: async () => {
      const expected = Array.from({ length: sent }, (_, index) => `${index} `).join("");
      const deadlineMs = performance.now() + 2_000;
      while (received.length < expected.length && performance.now() < deadlineMs) await sleep(5);
      assert.ifError(failure);
      assert.ok(expected.length > 0);
      assert.ok(received.startsWith(expected));
    },
    end: async () => {
      clearInterval(timer);
      connection.end();
      await once(connection, "close");
    },
  };
}

describe("servers that DNS names", () => {
  it("are followed from 1 to 3 to 2 within 5 s, and no byte stream breaks", async (t) => {
    const servers = await startServers(t, 3);
    const zone = { [NAME]: { v4: ["127.0.0.1"] } };
    const nameServer = await startNameServer(t, zone);
    const { metric } = await startTrackedAgent(t, 0, {
      servers: [{ host: `${NAME}.`, port: servers[0]!.agentPort, name: NAME }],
      serverDiscovery: "dns",
      serverResolvers: [nameServer.address],
      syncIntervalMs: 1_000,
      syncIntervalCapMs: 10_000,
    });
    const tunnels = async () => Number(await metric("open_server_connections"));
    const follows = async (count: number) => {
      const startMs = performance.now();
      while ((await tunnels()) !== count) {
        assert.ok(performance.now() - startMs < 5_000, `${await tunnels()} tunnels after 5 s`);
        await sleep(20);
      }
      t.diagnostic(`${count} tunnels after ${Math.round(performance.now() - startMs)} ms`);
    };
    const endpoint = await startEndpoint(t, (socket) => socket.pipe(socket));

    await follows(1);
    const first = await startStream(t, servers[0]!, endpoint);
    zone[NAME] = { v4: ["127.0.0.3", "127.0.0.1", "127.0.0.2"] };
    await follows(3);
    const second = await startStream(t, servers[1]!, endpoint);
    const third = await startStream(t, servers[2]!, endpoint);
    await sleep(100);

    // An idle tunnel goes; one in use goes when it is idle.
    zone[NAME] = { v4: ["127.0.0.2", "127.0.0.3"] };
    await sleep(4_500);
    assert.equal(await metric("reachback_agent_connected_servers"), "2");
    assert.equal(await tunnels(), 3);
    await first.check();
    await first.end();
    await follows(2);

    const attempts = async () => {
      const outcomes = ["opened", "duplicate", "failed"].map((outcome) =>
        metric(`reachback_agent_tunnel_attempts_total{outcome="${outcome}"}`),
      );
      return Promise.all(outcomes);
    };
    assert.deepEqual(await attempts(), ["3", undefined, undefined]);
    await sleep(10_000);
    assert.deepEqual(await attempts(), ["3", undefined, undefined]);
    zone[NAME] = { v4: ["127.0.0.2"] };
    await third.end();
    await follows(1);
    await second.check();
    assert.equal(await metric("known_server_count"), "1");
  });
});
