import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:net";
import { kill } from "node:process";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { startAgent, startEndpoint, temporaryFolder, until } from "../support/cluster.ts";
import { startExecutable } from "../support/executable.ts";
import { createTestPki } from "../support/pki.ts";
import {
  WORKERS,
  echoed,
  isAlive,
  isFullMesh,
  linesOf,
  startWorkers,
  valueOf,
} from "../support/workers-server.ts";

describe("a server with four workers", () => {
  it("is four servers to an agent, and one to everybody else", async (t) => {
    const server = await startWorkers(t, ["--process-window=1000001"]);
    const agent = await startAgent(t, server.agentPort);
    await isFullMesh(server);
    const endpoint = await startEndpoint(t, (socket) => {
      socket.pipe(socket);
    });
    for (const client of Object.values(server.clients)) {
      for (let dial = 0; dial < 3; dial++) {
        const connection = await client.dial(endpoint, { allowHalfOpen: true });
        connection.end("hello");
        assert.equal(await text(connection), "hello");
      }
    }
    assert.ok(agent.isReady);
    assert.equal(await valueOf(server, "reachback_server_connections_opened_total"), 12);
    assert.equal(
      await valueOf(server, "konnectivity_network_proxy_server_dial_duration_seconds_count"),
      12,
    );
    assert.equal(await valueOf(server, "reachback_server_connection_bytes_total", "to_agent"), 60);
    assert.equal(await valueOf(server, "reachback_server_workers"), WORKERS);
    assert.equal(await valueOf(server, "reachback_server_window_growth_limit_bytes"), 1_000_001);
    assert.ok((await valueOf(server, "process_resident_memory_bytes")) > 150 * 1024 * 1024);
    const ready = await fetch(`http://127.0.0.1:${server.healthPort}/readyz?verbose`);
    const lines = await ready.text();
    assert.equal(ready.status, 200, lines);
    assert.match(lines, /\[\+\]strategy-default ok: 1 agents/);
    assert.match(lines, /last-good-dial ok: \d+ s ago/);
  });

  it("gives the profile of the worker that is asked for", async (t) => {
    const server = await startWorkers(t, ["--enable-profiling"]);
    const profileOf = (worker: number) =>
      fetch(`http://127.0.0.1:${server.adminPort}/debug/pprof/profile?seconds=1&worker=${worker}`);
    const profile = await profileOf(2);
    assert.equal(profile.status, 200);
    assert.ok(Object.hasOwn((await profile.json()) as object, "samples"));
    const nobody = await profileOf(WORKERS + 1);
    assert.equal(nobody.status, 404);
    assert.equal(await nobody.text(), "no worker 5 of 4\n");

    const [stopped = 0] = server.workers().get(2) ?? [];
    const dead = profileOf(2);
    kill(stopped, "SIGKILL");
    assert.equal((await dead).status, 503);
  });

  it("replaces a worker that is killed, while the connections of all others live on", async (t) => {
    const server = await startWorkers(t, ["--proxy-strategies=destHost,default"]);
    await startAgent(t, server.agentPort);
    await isFullMesh(server);
    const endpoint = await startEndpoint(t, (socket) => {
      socket.pipe(socket);
    });
    // Each of these is a socket of its own, so they go to the workers in turn.
    const connections = await Promise.all(
      Array.from({ length: 8 }, () => server.clients.connectUnix.dial(endpoint)),
    );
    const lost = new Set<Duplex>();
    for (const connection of connections) {
      connection.on("error", () => undefined);
      connection.on("close", () => lost.add(connection));
    }
    const opened = await valueOf(server, "reachback_server_connections_opened_total");
    assert.equal(opened, 8);
    const [victim = 0] = server.workers().get(2) ?? [];
    kill(victim, "SIGKILL");
    await until(() => server.workers().get(2)?.length === 2);
    await isFullMesh(server);
    await until(() => lost.size > 0);
    assert.equal(lost.size, 2);
    for (const connection of connections) {
      if (!lost.has(connection)) await echoed(connection, Buffer.from("still there"));
    }
    for (let dial = 0; dial < 8; dial++) {
      const connection = await server.clients.connectUnix.dial(endpoint);
      await echoed(connection, Buffer.from("and new ones"));
      connection.destroy();
    }
    // What the dead one had counted is not forgotten.
    assert.equal(await valueOf(server, "reachback_server_connections_opened_total"), opened + 8);
    assert.equal(await valueOf(server, "reachback_server_workers_lost_total"), 1);
    const line = linesOf(server.program).find(({ event }) => event === "worker.lost");
    assert.deepEqual([line?.worker, line?.pid], [2, victim]);
    for (const connection of connections) connection.destroy();
  });

  it("replaces a worker that is mute, and lets others do its work meanwhile", async (t) => {
    const server = await startWorkers(t);
    await startAgent(t, server.agentPort);
    await isFullMesh(server);
    const endpoint = await startEndpoint(t, (socket) => {
      socket.pipe(socket);
    });
    const [mute = 0] = server.workers().get(2) ?? [];
    kill(mute, "SIGSTOP");
    // Each worker is given three, which wait for the mute one for ever.
    let closedCount = 0;
    const early = Array.from({ length: 3 * WORKERS }, () => connect(server.connectPath));
    for (const socket of early) {
      socket.on("close", () => closedCount++).resume();
      t.after(() => socket.destroy());
    }
    const isServedByOthers = async () => {
      const dials = await Promise.allSettled(
        Array.from({ length: WORKERS }, () =>
          server.clients.connectUnix.dial(endpoint, { timeoutMs: 500 }),
        ),
      );
      for (const dial of dials) if (dial.status === "fulfilled") dial.value.destroy();
      return dials.every(({ status }) => status === "fulfilled");
    };
    await until(isServedByOthers, 20_000);
    assert.equal(server.workers().get(2)?.length, 1, "it is not replaced so soon");
    await until(() => server.workers().get(2)?.length === 2, 50_000);
    const line = linesOf(server.program).find(({ event }) => event === "worker.lost");
    assert.match(JSON.stringify(line), /it has answered nothing for 30 s/);
    // Node does not tell of the one that it was about to hand over.
    await until(() => closedCount >= 2);
    assert.ok(await isServedByOthers());
  });

  it("has limits of each worker, and says so", async (t) => {
    const server = await startWorkers(t, ["--max-connections=1"]);
    await startAgent(t, server.agentPort);
    await isFullMesh(server);
    const endpoint = await startEndpoint(t, (socket) => {
      socket.resume();
    });
    // Sockets of one peer go to the workers in turn.
    const dials = await Promise.allSettled(
      Array.from({ length: WORKERS + 1 }, () => server.clients.connectUnix.dial(endpoint)),
    );
    const refused = dials.flatMap((dial) =>
      dial.status === "rejected" ? [String(dial.reason)] : [],
    );
    assert.equal(refused.length, 1, refused.join());
    assert.match(
      refused[0] ?? "",
      /too many connections: 1 are open or being dialed \(--max-connections, of each of 4 workers\)/,
    );
    for (const dial of dials) if (dial.status === "fulfilled") dial.value.destroy();
  });

  it("leaves no worker behind when the primary is killed", async (t) => {
    const server = await startWorkers(t);
    const pids = [...server.workers().values()].flat();
    assert.equal(pids.length, WORKERS);
    server.program.signal("SIGKILL");
    await server.program.ended;
    await until(() => !pids.some(isAlive));
    await until(() => readdirSync(server.temporary).length === 0);
  });

  it("does not start if a worker cannot, and says why", async (t) => {
    const pki = createTestPki();
    const program = startExecutable(t, "reachback-server", [
      "--workers=2",
      `--uds-name=${join(temporaryFolder(t), "grpc.sock")}`,
      "--server-port=0",
      `--cluster-cert=${pki.serverAgent.certPath}`,
      `--cluster-key=${pki.serverAgent.certPath}`,
      `--cluster-ca-cert=${pki.agentCa.certPath}`,
    ]);
    const { code, stderr } = await program.ended;
    assert.equal(code, 1);
    assert.match(stderr, /error: failed to run the agent server: failed to load X509 key pair/);
  });
});
