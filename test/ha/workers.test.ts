import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { kill } from "node:process";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import type { Duplex } from "node:stream";
import { readExposition } from "@reachback/common/testing";
import type { ExposedSample } from "@reachback/common/testing";
import {
  clientsOf,
  startAgent,
  startEndpoint,
  temporaryFolder,
  until,
} from "../support/cluster.ts";
import type { TestCluster, TestServer } from "../support/cluster.ts";
import { startExecutable } from "../support/executable.ts";
import type { RunningProgram } from "../support/executable.ts";
import { freePorts } from "../support/free-ports.ts";
import { scrape } from "../support/gauges.ts";
import { connectAsAgent, packets } from "../support/packet-stream.ts";
import type { PacketStream } from "../support/packet-stream.ts";
import { createTestPki } from "../support/pki.ts";

// `--workers 4`, with the server's executable.

const WORKERS = 4;

interface WorkersServer extends Omit<TestServer, "server"> {
  readonly program: RunningProgram;
  readonly clients: TestCluster["clients"];
  /** Where the program makes its temporary files. */
  readonly temporary: string;
  /** Process ids of the workers that were started, oldest first, by their number. */
  workers(): Map<number, number[]>;
}

interface LogLine {
  readonly event: string;
  readonly worker?: number;
  readonly pid?: number;
}

function linesOf(program: RunningProgram): LogLine[] {
  return program.stderr
    .split("\n")
    .filter((line) => line.startsWith("{") && line.endsWith("}"))
    .map((line) => JSON.parse(line) as LogLine);
}

async function startWorkers(t: TestContext, flags: readonly string[] = []): Promise<WorkersServer> {
  const pki = createTestPki();
  const folder = temporaryFolder(t);
  const temporary = join(folder, "tmp");
  mkdirSync(temporary);
  const grpcPath = join(folder, "grpc.sock");
  const connectPath = join(folder, "connect.sock");
  const [grpcPort = 0, connectPort = 0, agentPort = 0, healthPort = 0, adminPort = 0] =
    await freePorts(t, 5);
  const program = startExecutable(
    t,
    "reachback-server",
    [
      `--workers=${WORKERS}`,
      "--server-id=s",
      `--uds-name=${grpcPath}`,
      "--server-port=0",
      `--frontend=http-connect,unix:${connectPath}`,
      `--frontend=grpc,127.0.0.1:${grpcPort}`,
      `--frontend=http-connect,127.0.0.1:${connectPort}`,
      `--server-cert=${pki.serverFrontend.certPath}`,
      `--server-key=${pki.serverFrontend.keyPath}`,
      `--server-ca-cert=${pki.frontendCa.certPath}`,
      `--cluster-cert=${pki.serverAgent.certPath}`,
      `--cluster-key=${pki.serverAgent.keyPath}`,
      `--cluster-ca-cert=${pki.agentCa.certPath}`,
      "--agent-bind-address=127.0.0.1",
      `--agent-port=${agentPort}`,
      "--health-bind-address=127.0.0.1",
      `--health-port=${healthPort}`,
      `--admin-port=${adminPort}`,
      ...flags,
    ],
    { env: { TMPDIR: temporary } },
  );
  await program.said('"program.started"');
  const server = { grpcPath, connectPath, grpcPort, connectPort, agentPort, healthPort, adminPort };
  const clients = clientsOf(server as TestServer);
  t.after(() => {
    for (const client of Object.values(clients)) client.close();
  });
  return {
    ...server,
    program,
    clients,
    temporary,
    workers: () => {
      const pids = new Map<number, number[]>();
      for (const { event, worker = 0, pid = 0 } of linesOf(program)) {
        if (event === "worker.started") pids.set(worker, [...(pids.get(worker) ?? []), pid]);
      }
      return pids;
    },
  };
}

async function samplesOf({ healthPort }: WorkersServer): Promise<readonly ExposedSample[]> {
  return readExposition(await scrape(healthPort));
}

async function valueOf(server: WorkersServer, name: string, label = ""): Promise<number> {
  const samples = await samplesOf(server);
  return (
    samples.find(
      (sample) =>
        sample.name === name && (label === "" || Object.values(sample.labels).includes(label)),
    )?.value ?? 0
  );
}

const tunnelCount = (server: WorkersServer) =>
  valueOf(server, "konnectivity_network_proxy_server_grpc_connections", "Connect");

/** An agent with one tunnel that answers every dial and echoes all data. */
async function startEchoAgent(
  t: TestContext,
  server: WorkersServer,
  host: string,
): Promise<PacketStream> {
  const agent = await connectAsAgent(t, server, {
    agentId: `agent-${host}`,
    identifiers: `host=${host}`,
  });
  let lastId = 0;
  agent.serve(({ dialRequest, data, closeRequest }) => {
    if (dialRequest) {
      const { address = "", random = "" } = dialRequest;
      if (address.endsWith(":1")) {
        agent.send(packets.dialFailed(random, "connection refused"));
      } else {
        agent.send(packets.dialed(random, ++lastId));
      }
    } else if (data) {
      agent.send(packets.data(data.connectID ?? "", data.data ?? ""));
    } else if (closeRequest) {
      agent.send(packets.closed(closeRequest.connectID ?? ""));
    }
  });
  return agent;
}

async function echoed(connection: Duplex, message: Buffer): Promise<void> {
  connection.write(message);
  const pieces: Buffer[] = [];
  let length = 0;
  while (length < message.length) {
    const piece = (connection.read() as Buffer | null) ?? undefined;
    if (piece === undefined) {
      await once(connection, "readable", { signal: AbortSignal.timeout(10_000) });
    } else {
      pieces.push(piece);
      length += piece.length;
    }
  }
  assert.ok(Buffer.concat(pieces).equals(message), "other bytes came back");
}

function isAlive(pid: number): boolean {
  try {
    kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const isFullMesh = (server: WorkersServer, agents = 1) =>
  until(async () => (await tunnelCount(server)) === WORKERS * agents);

describe("a server with four workers", () => {
  it("is four servers to an agent, and one to everybody else", async (t) => {
    const server = await startWorkers(t);
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
    assert.ok((await valueOf(server, "process_resident_memory_bytes")) > 150 * 1024 * 1024);
    const ready = await fetch(`http://127.0.0.1:${server.healthPort}/readyz?verbose`);
    const lines = await ready.text();
    assert.equal(ready.status, 200, lines);
    assert.match(lines, /\[\+\]strategy-default ok: 1 agents/);
    assert.match(lines, /last-good-dial ok: \d+ s ago/);
  });

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
