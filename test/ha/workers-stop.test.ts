import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { kill } from "node:process";
import { describe, it } from "node:test";
import { startAgent, startEndpoint, until } from "../support/cluster.ts";
import { connectAsAgent, openProxy, packets } from "../support/packet-stream.ts";
import {
  echoed,
  isAlive,
  isFullMesh,
  linesOf,
  startEchoAgent,
  startWorkers,
} from "../support/workers-server.ts";

const eventsOf = (server: Awaited<ReturnType<typeof startWorkers>>) =>
  linesOf(server.program).map(({ event }) => event);

describe("a server with four workers that is told to stop", () => {
  it("ends as a whole at SIGTERM, when its connections have, and leaves nothing", async (t) => {
    const server = await startWorkers(t, ["--graceful-shutdown-timeout=20s"]);
    await startAgent(t, server.agentPort);
    await isFullMesh(server);
    const endpoint = await startEndpoint(t, (socket) => {
      socket.pipe(socket);
    });
    const connection = await server.clients.connectUnix.dial(endpoint);
    const pids = [...server.workers().values()].flat();
    server.program.signal("SIGTERM");
    await until(() => !existsSync(server.grpcPath) && !existsSync(server.connectPath));
    const ready = await fetch(`http://127.0.0.1:${server.healthPort}/readyz`);
    assert.equal(ready.status, 500);
    await echoed(connection, Buffer.from("goes on"));
    const endedAtMs = performance.now();
    connection.end();
    connection.resume();
    const { code } = await server.program.ended;
    assert.equal(code, 0);
    const tookMs = performance.now() - endedAtMs;
    assert.ok(tookMs < 3_000, `ended ${Math.round(tookMs)} ms after its last connection`);
    assert.deepEqual(pids.filter(isAlive), []);
    assert.deepEqual(readdirSync(server.temporary), []);
  });

  it("waits for a worker that is slow to say what it holds", async (t) => {
    const server = await startWorkers(t, ["--graceful-shutdown-timeout=20s"]);
    await startAgent(t, server.agentPort);
    await isFullMesh(server);
    const endpoint = await startEndpoint(t, (socket) => {
      socket.pipe(socket);
    });
    // One at each worker.
    const connections = await Promise.all(
      Array.from({ length: 4 }, () => server.clients.connectUnix.dial(endpoint)),
    );
    const [slow = 0, ...others] = [...server.workers().values()].flat();
    kill(slow, "SIGSTOP");
    server.program.signal("SIGTERM");
    // Neither question is answered in time.
    await server.program.said('"shutdown.waiting"');
    kill(slow, "SIGCONT");
    for (const connection of connections) await echoed(connection, Buffer.from("goes on"));
    assert.deepEqual(others.filter(isAlive), others);
    for (const connection of connections) connection.end().resume();
    const endedAtMs = performance.now();
    assert.equal((await server.program.ended).code, 0);
    assert.ok(performance.now() - endedAtMs < 3_000);
    assert.ok(!eventsOf(server).includes("shutdown.cutting"));
  });

  it("ends at once at a second signal", async (t) => {
    const server = await startWorkers(t, ["--graceful-shutdown-timeout=60s"]);
    const agent = await startEchoAgent(t, server, "host");
    const connection = await server.clients.connectUnix.dial("host:80");
    connection.on("error", () => undefined);
    const pids = [...server.workers().values()].flat();
    server.program.signal("SIGTERM");
    await until(() => !existsSync(server.connectPath));
    server.program.signal("SIGTERM");
    assert.equal((await server.program.ended).code, 1);
    await until(() => !pids.some(isAlive));
    await until(() => readdirSync(server.temporary).length === 0);
    agent.cancel();
  });

  it("tells all agents, serves on, and keeps what was handed over until it ends", async (t) => {
    const server = await startWorkers(t, [
      "--graceful-shutdown-timeout=20s",
      "--shutdown-delay=1500ms",
      "--proxy-strategies=destHost",
    ]);
    // On four workers, so that most dials for each are handed over.
    const agents = await Promise.all(
      ["a", "b", "c", "d"].map((host) =>
        connectAsAgent(t, server, {
          agentId: host,
          identifiers: `host=${host}`,
          extensions: "server-drain",
        }),
      ),
    );
    const dials: string[] = [];
    for (const agent of agents) {
      let lastId = 0;
      agent.serve(({ type, dialRequest, data, closeRequest }) => {
        if (type === "DRAIN") dials.push("DRAIN");
        if (dialRequest) agent.send(packets.dialed(dialRequest.random ?? 0, ++lastId));
        if (data) agent.send(packets.data(data.connectID ?? "", data.data ?? ""));
        if (closeRequest) agent.send(packets.closed(closeRequest.connectID ?? ""));
      });
    }
    const held = [];
    for (const host of ["a", "b", "c", "d"]) {
      held.push(await server.clients.connectUnix.dial(`${host}:80`));
    }
    const stoppedAtMs = performance.now();
    server.program.signal("SIGTERM");
    await until(() => dials.length === agents.length);
    const ready = await fetch(`http://127.0.0.1:${server.healthPort}/readyz`);
    assert.equal(ready.status, 500);
    for (const host of ["a", "b", "c", "d"]) {
      const late = await server.clients.grpcUnix.dial(`${host}:80`);
      await echoed(late, Buffer.from("late"));
      late.destroy();
    }
    await server.program.said('"shutdown.waiting"');
    assert.ok(performance.now() - stoppedAtMs >= 1_499);
    for (const connection of held) await echoed(connection, Buffer.alloc(200_000, "on"));
    // No worker goes before the last connection of all, because it may be handed a dial.
    const pids = [...server.workers().values()].flat();
    for (const connection of held.slice(1)) connection.destroy();
    assert.deepEqual(pids.filter(isAlive), pids);
    await echoed(held[0]!, Buffer.from("still there"));
    const endedAtMs = performance.now();
    held[0]!.destroy();
    assert.equal((await server.program.ended).code, 0);
    const tookMs = performance.now() - endedAtMs;
    assert.ok(tookMs < 3_000, `ended ${Math.round(tookMs)} ms after its last connection`);
    for (const agent of agents) assert.equal((await agent.status).code, 0);
    assert.deepEqual(
      eventsOf(server).filter((event) => event.startsWith("shutdown.")),
      ["shutdown.draining", "shutdown.waiting"],
    );
  });

  it("cuts what is left at the end of its time, and says so to frontends", async (t) => {
    const server = await startWorkers(t, [
      "--graceful-shutdown-timeout=1s",
      "--shutdown-delay=100ms",
      "--proxy-strategies=destHost",
    ]);
    const hosts = ["a", "b", "c", "d"];
    await Promise.all(hosts.map((host) => startEchoAgent(t, server, host)));
    const frontends = hosts.map((host, index) =>
      openProxy(t, server).send(packets.dial(index + 1, `${host}:80`)),
    );
    for (const [index, frontend] of frontends.entries()) {
      assert.equal(await frontend.next(), `DIAL_RSP ${index + 1} id 1`);
    }
    server.program.signal("SIGTERM");
    for (const frontend of frontends) {
      assert.equal(await frontend.next(), 'CLOSE_RSP 1 "proxy server shutting down"');
    }
    assert.equal((await server.program.ended).code, 0);
    assert.ok(eventsOf(server).includes("shutdown.cutting"));
  });

  it("waits for no worker that dies meanwhile, and does not replace it", async (t) => {
    const server = await startWorkers(t, [
      "--graceful-shutdown-timeout=20s",
      "--shutdown-delay=100ms",
    ]);
    await startAgent(t, server.agentPort);
    await isFullMesh(server);
    const endpoint = await startEndpoint(t, (socket) => {
      socket.pipe(socket);
    });
    const connections = await Promise.all(
      Array.from({ length: 8 }, () => server.clients.connectUnix.dial(endpoint)),
    );
    let lost = 0;
    for (const connection of connections) {
      connection.on("error", () => undefined);
      connection.on("close", () => lost++);
    }
    server.program.signal("SIGTERM");
    await server.program.said('"shutdown.waiting"');
    const pids = [...server.workers().values()].flat();
    for (const pid of pids.slice(1)) kill(pid, "SIGKILL");
    await until(() => lost === 6);
    await until(() => pids.filter(isAlive).length === 1);
    for (const connection of connections) connection.destroy();
    assert.equal((await server.program.ended).code, 0);
    assert.equal(eventsOf(server).filter((event) => event === "worker.started").length, 4);
    assert.deepEqual(pids.filter(isAlive), []);
    assert.deepEqual(readdirSync(server.temporary), []);
  });
});
