import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { kill } from "node:process";
import type { TestContext } from "node:test";
import type { Duplex } from "node:stream";
import { readExposition } from "@reachback/common/testing";
import type { ExposedSample } from "@reachback/common/testing";
import { clientsOf, temporaryFolder, until } from "./cluster.ts";
import type { TestCluster, TestServer } from "./cluster.ts";
import { startExecutable } from "./executable.ts";
import type { RunningProgram } from "./executable.ts";
import { freePorts } from "./free-ports.ts";
import { scrape } from "./gauges.ts";
import { connectAsAgent, packets } from "./packet-stream.ts";
import type { PacketStream } from "./packet-stream.ts";
import { createTestPki, serverCertificateFlags } from "./pki.ts";

// `--workers 4`, with the server's executable.

export const WORKERS = 4;

export interface WorkersServer extends Omit<TestServer, "server"> {
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

export function linesOf(program: RunningProgram): LogLine[] {
  return program.stderr
    .split("\n")
    .filter((line) => line.startsWith("{") && line.endsWith("}"))
    .map((line) => JSON.parse(line) as LogLine);
}

export async function startWorkers(
  t: TestContext,
  flags: readonly string[] = [],
): Promise<WorkersServer> {
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
      ...serverCertificateFlags(pki),
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

export async function valueOf(server: WorkersServer, name: string, label = ""): Promise<number> {
  const samples = await samplesOf(server);
  return (
    samples.find(
      (sample) =>
        sample.name === name && (label === "" || Object.values(sample.labels).includes(label)),
    )?.value ?? 0
  );
}

export const tunnelCount = (server: WorkersServer) =>
  valueOf(server, "konnectivity_network_proxy_server_grpc_connections", "Connect");

/** An agent with one tunnel that answers every dial and echoes all data. */
export async function startEchoAgent(
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

export async function echoed(connection: Duplex, message: Buffer): Promise<void> {
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

export function isAlive(pid: number): boolean {
  try {
    kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

export const isFullMesh = (server: WorkersServer, agents = 1) =>
  until(async () => (await tunnelCount(server)) === WORKERS * agents);
