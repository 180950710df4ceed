import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { Agent } from "@reachback/agent";
import type { AgentOptions, HostLookup } from "@reachback/agent";
import { Client } from "@reachback/client";
import { opensslCiphers, silentLogger, systemClock, systemRandom } from "@reachback/common";
import type { Clock, Logger, LoggingOptions, Random, FlowOptions } from "@reachback/common";
import * as source from "@reachback/server";
import type { RunningServer, ServerOptions } from "@reachback/server";
import { createTestPki } from "./pki.ts";

// The only place that wires a test topology. Everything listens on loopback, on ports and paths of
// its own, and is stopped when the test ends.

const BUILD = new URL("../../packages/server/dist/index.js", import.meta.url).href;

const LOGGING: LoggingOptions = {
  verbosity: 4,
  logToStderr: true,
  logFile: "",
  logFileMaxSizeMegabytes: 0,
  alsoLogToStderr: false,
  logDir: "",
  ignored: [],
};

/**
 * Processes of each server: `npm run test:workers` sets it to 4. Agents have a tunnel to each, and the
 * rest of a test sees no difference.
 */
export const WORKERS = Number(process.env["SERVER_WORKERS"] ?? 1);

/** For a test whose expectation is that of one process. */
export const ONLY_ALONE = WORKERS > 1 ? { skip: "counts what one process does" } : {};

/** A folder for sockets, removed when the test ends. */
export function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "reachback-"));
  t.after(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

const KIB = 1024;

/** The bounds of the programs on a machine with much memory. */
export const TEST_FLOW: FlowOptions = {
  limits: {
    initialBytes: 64 * KIB,
    maxBytes: 16 * 1024 * KIB,
    tunnelWindowBytes: 256 * 1024 * KIB,
    queueBytes: 256 * KIB,
    stallTimeoutMs: 1_000,
  },
  processWindowBytes: 1024 * 1024 * KIB,
  halfCloseTimeoutMs: 10_000,
};

export interface TestServer {
  readonly server: RunningServer;
  /** Sockets of the gRPC and the CONNECT frontend. */
  readonly grpcPath: string;
  readonly connectPath: string;
  /** Ports of the gRPC and the CONNECT frontend on mutual TLS. */
  readonly grpcPort: number;
  readonly connectPort: number;
  readonly agentPort: number;
  readonly healthPort: number;
  readonly adminPort: number;
}

export interface StartOptions {
  readonly logger?: Logger;
  readonly clock?: Clock;
}

/** Start a server with all four frontends. */
export async function startServer(
  t: TestContext,
  overrides: Partial<ServerOptions> = {},
  { logger = silentLogger, clock = systemClock }: StartOptions = {},
): Promise<TestServer> {
  const pki = createTestPki();
  const folder = temporaryFolder(t);
  const grpcPath = join(folder, "grpc.sock");
  const connectPath = join(folder, "connect.sock");
  const options: ServerOptions = {
    serverId: "server-1",
    serverCount: 1,
    // A clock that a test moves is that of one process.
    workers: clock === systemClock ? WORKERS : 1,
    frontends: [
      { protocol: "grpc", address: { kind: "unix", path: grpcPath } },
      { protocol: "http-connect", address: { kind: "unix", path: connectPath } },
      { protocol: "grpc", address: { kind: "tcp", host: "127.0.0.1", port: 0 } },
      { protocol: "http-connect", address: { kind: "tcp", host: "127.0.0.1", port: 0 } },
    ],
    unixSocketMode: 0o770,
    deleteExistingUnixSocket: true,
    serverCertPath: pki.serverFrontend.certPath,
    serverKeyPath: pki.serverFrontend.keyPath,
    serverCaCertPath: pki.frontendCa.certPath,
    allowUnauthenticatedFrontends: false,
    frontendKeepaliveTimeMs: 3_600_000,
    agentBindAddress: "127.0.0.1",
    agentPort: 0,
    clusterCertPath: pki.serverAgent.certPath,
    clusterKeyPath: pki.serverAgent.keyPath,
    clusterCaCertPath: pki.agentCa.certPath,
    allowUnauthenticatedAgents: false,
    keepaliveTimeMs: 3_600_000,
    keepaliveTimeoutMs: 10_000,
    tokenAuthentication: undefined,
    lease: undefined,
    kubeconfigPath: "",
    proxyStrategies: ["default"],
    zone: "",
    backendDialTimeoutMs: 10_000,
    startupDialHoldMs: 0,
    maxPendingDials: 10_000,
    maxConnections: 65_536,
    maxConnectionsPerAgent: 16_384,
    maxTunnelsPerIdentity: 10_000,
    gracefulShutdownTimeoutMs: 0,
    shutdownDelayMs: 0,
    flow: TEST_FLOW,
    tlsCiphers: opensslCiphers(),
    tlsMinVersion: "TLSv1.2",
    healthBindAddress: "127.0.0.1",
    healthPort: 0,
    readyStrategies: "first",
    adminBindAddress: "127.0.0.1",
    adminPort: 0,
    enableProfiling: false,
    enableContentionProfiling: false,
    logging: LOGGING,
    ...overrides,
  };
  const server = await startWithWorkers(options, {
    clock,
    random: systemRandom,
    logger,
  });
  t.after(() => server.stop());
  const { frontends, agent, health, admin } = server.ports;
  return {
    server,
    grpcPath,
    connectPath,
    grpcPort: frontends[2] ?? 0,
    connectPort: frontends[3] ?? 0,
    agentPort: agent,
    healthPort: health,
    adminPort: admin,
  };
}

/** Workers run the build, as with the executable: it starts several times faster than the sources. */
async function startWithWorkers(
  options: ServerOptions,
  ports: source.StartPorts,
): Promise<RunningServer> {
  if (options.workers === 1) return source.startServer(options, ports);
  const build = (await import(BUILD)) as typeof source;
  // They inherit how this process was started, which is for sources.
  const execArgv = process.execArgv.splice(0);
  let starting: Promise<RunningServer>;
  try {
    starting = build.startServer(options, ports);
  } finally {
    process.execArgv.push(...execArgv);
  }
  return starting;
}

export interface StartAgentOptions extends StartOptions {
  readonly clock?: Clock;
  readonly random?: Random;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly hostLookup?: HostLookup;
}

/** Start an agent for the server that listens for agents on `serverPort`. */
export async function startAgent(
  t: TestContext,
  serverPort: number,
  overrides: Partial<AgentOptions> = {},
  ports: StartAgentOptions = {},
): Promise<Agent> {
  const pki = createTestPki();
  const options: AgentOptions = {
    agentId: "agent-1",
    agentIdentifiers: "",
    servers: [{ host: "127.0.0.1", port: serverPort, name: "127.0.0.1" }],
    serverDiscovery: "balancer",
    serverLookupIntervalMs: 3_000,
    serverResolvers: [],
    caCertPath: pki.agentCa.certPath,
    agentCertPath: pki.agentClient.certPath,
    agentKeyPath: pki.agentClient.keyPath,
    serviceAccountTokenPath: "",
    alpnProtocols: [],
    keepaliveTimeMs: 3_600_000,
    keepaliveTimeoutMs: 10_000,
    syncIntervalMs: 50,
    syncIntervalCapMs: 500,
    probeIntervalMs: 1_000,
    serverLeases: undefined,
    drainLingerMs: 5_000,
    drainTimeoutMs: 25_000,
    flow: TEST_FLOW,
    healthServerHost: "127.0.0.1",
    healthServerPort: 0,
    readyMinServers: 1,
    adminBindAddress: "127.0.0.1",
    adminServerPort: 0,
    enableProfiling: false,
    enableContentionProfiling: false,
    logging: LOGGING,
    ...overrides,
  };
  const agent = await Agent.start(options, {
    clock: systemClock,
    random: systemRandom,
    logger: silentLogger,
    version: "test",
    ...ports,
  });
  t.after(() => agent.stop());
  return agent;
}

export interface TestCluster extends TestServer {
  readonly agent: Agent;
  /** Clients of the four frontends. */
  readonly clients: {
    readonly grpcUnix: Client;
    readonly connectUnix: Client;
    readonly grpcTls: Client;
    readonly connectTls: Client;
  };
}

export interface ClusterOverrides {
  readonly server?: Partial<ServerOptions>;
  readonly agent?: Partial<AgentOptions>;
}

/** Start a server and an agent whose tunnels are up. */
export async function startCluster(
  t: TestContext,
  overrides: ClusterOverrides = {},
  options: StartOptions = {},
): Promise<TestCluster> {
  const testServer = await startServer(t, overrides.server, options);
  const ready: Partial<AgentOptions> = WORKERS > 1 ? { readyMinServers: "all" } : {};
  const agent = await startAgent(
    t,
    testServer.agentPort,
    { ...ready, ...overrides.agent },
    options,
  );
  await until(async () => (await statusOf(testServer.healthPort, "/readyz")) === 200);
  await until(() => agent.isReady);
  return { ...testServer, agent, clients: clientsOf(testServer) };
}

/** A client for each frontend of a server. */
export function clientsOf(server: TestServer): TestCluster["clients"] {
  const pki = createTestPki();
  const tls = {
    caPath: pki.frontendCa.certPath,
    certPath: pki.frontendClient.certPath,
    keyPath: pki.frontendClient.keyPath,
  };
  const { grpcPath, connectPath, grpcPort, connectPort } = server;
  return {
    grpcUnix: new Client({ protocol: "grpc", address: { kind: "unix", path: grpcPath } }),
    connectUnix: new Client({
      protocol: "http-connect",
      address: { kind: "unix", path: connectPath },
    }),
    grpcTls: new Client({
      protocol: "grpc",
      address: { kind: "tcp", host: "127.0.0.1", port: grpcPort },
      tls,
    }),
    connectTls: new Client({
      protocol: "http-connect",
      address: { kind: "tcp", host: "127.0.0.1", port: connectPort },
      tls,
    }),
  };
}

/** Start a TCP endpoint on loopback; returns its `host:port`. */
export async function startEndpoint(
  t: TestContext,
  onConnection: (socket: Socket) => void,
): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    socket.on("error", () => undefined);
    onConnection(socket);
  });
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The status of a GET on loopback. */
export async function statusOf(port: number, path: string): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    headers: { connection: "close" },
  });
  await response.arrayBuffer();
  return response.status;
}

/**
 * Wait until `condition` holds, looking at it again after every turn of the event loop that brought
 * something.
 *
 * @throws after `timeoutMs`, naming the condition.
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 10_000,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > deadlineMs) throw new Error(`never became true: ${String(condition)}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
