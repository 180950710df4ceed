import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { until } from "../support/cluster.ts";
import { runRandomTransfers } from "../support/random-transfers.ts";
import {
  WORKERS,
  echoed,
  startEchoAgent,
  startWorkers,
  tunnelCount,
  valueOf,
} from "../support/workers-server.ts";

describe("a server with four workers", () => {
  it("hands a dial to the worker that has the agent for it", async (t) => {
    const server = await startWorkers(t, ["--proxy-strategies=destHost"]);
    const hosts = Array.from({ length: 6 }, (_, index) => `host-${index}`);
    for (const host of hosts) await startEchoAgent(t, server, host);
    assert.equal(await tunnelCount(server), hosts.length);
    const payload = Buffer.alloc(300_000, "0123456789abcdef!");
    for (const [name, client] of Object.entries(server.clients)) {
      for (const host of hosts) {
        const connection = await client.dial(`${host}:80`, { timeoutMs: 5_000 });
        await echoed(connection, payload);
        connection.destroy();
        await assert.rejects(client.dial(`${host}:1`, { timeoutMs: 5_000 }), /connection refused/);
      }
      await assert.rejects(client.dial("nobody:80"), { code: "ERR_NO_AGENT" }, name);
    }
    const dials = hosts.length * 4;
    // Counted once each, wherever the agent is.
    assert.equal(await valueOf(server, "reachback_server_connections_opened_total"), dials);
    await until(
      async () =>
        (await valueOf(server, "konnectivity_network_proxy_server_established_connections")) === 0,
    );
  });

  it("hands over transfers of every kind, which are whole or failures", async (t) => {
    // One tunnel, whatever the server says: three of four dials come to another worker.
    await runRandomTransfers(t, 200, 100, 8, {
      server: { workers: WORKERS },
      agent: { serverDiscovery: "list", readyMinServers: 1 },
    });
  });
});
