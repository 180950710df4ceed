import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import type { ServerOptions } from "@reachback/server";
import { RecordingLogger } from "@reachback/common/testing";
import { credentials } from "@grpc/grpc-js";
import {
  startAgent,
  startEndpoint,
  startServer,
  statusOf,
  temporaryFolder,
  until,
} from "../support/cluster.ts";
import { scrape, whatIsHeld } from "../support/gauges.ts";
import { connectAsAgent, connectAsFrontend, openProxy, packets } from "../support/packet-stream.ts";
import { createTestPki } from "../support/pki.ts";
import { connectRaw, connectRawTls } from "../support/raw-socket.ts";
import { startRelay } from "../support/relay.ts";

// How a server starts, or why not; and how it stops.

const CONNECT = "CONNECT endpoint:80 HTTP/1.1\r\n\r\n";

/** A port that is taken for as long as the test runs. */
async function takenPort(t: TestContext): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Whether somebody accepts connections there. */
function isOpen(place: number | string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket =
      typeof place === "string" ? connect(place) : connect({ port: place, host: "127.0.0.1" });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => {
      resolve(false);
    });
  });
}

/** The message that a start fails with. */
async function startError(t: TestContext, options: Partial<ServerOptions>): Promise<string> {
  try {
    await startServer(t, options);
  } catch (error) {
    assert.ok(error instanceof Error);
    return error.message;
  }
  return "it started";
}

describe("a server that cannot open a listener", () => {
  const tcp = (protocol: "grpc" | "http-connect", port: number) =>
    ({ protocol, address: { kind: "tcp", host: "127.0.0.1", port } }) as const;
  const inUse = (port: number) =>
    `failed to listen on 127.0.0.1:${port}: listen tcp 127.0.0.1:${port}: bind: address already in use`;

  const cases: readonly [
    what: string,
    options: (port: number) => Partial<ServerOptions>,
    who: string,
  ][] = [
    ["the gRPC frontend", (port) => ({ frontends: [tcp("grpc", port)] }), "frontend server"],
    [
      "the CONNECT frontend",
      (port) => ({ frontends: [tcp("http-connect", port)] }),
      "frontend server",
    ],
    ["the agents", (port) => ({ agentPort: port }), "agent server"],
    ["admin", (port) => ({ adminPort: port }), "admin server"],
    ["health", (port) => ({ healthPort: port }), "health server"],
  ];
  for (const [what, options, who] of cases) {
    it(`for ${what} does not start, says why, and leaves nothing open`, async (t) => {
      const folder = temporaryFolder(t);
      const path = join(folder, "frontend.sock");
      const port = await takenPort(t);
      const others = {
        agentPort: await freePort(),
        adminPort: await freePort(),
        healthPort: await freePort(),
      };
      const given = { ...others, ...options(port) };
      given.frontends = [
        { protocol: "grpc", address: { kind: "unix", path } },
        ...(given.frontends ?? []),
      ];
      assert.equal(await startError(t, given), `failed to run the ${who}: ${inUse(port)}`);
      const open = await Promise.all([path, ...Object.values(others)].map(isOpen));
      assert.deepEqual(open, [false, false, false, false]);
      assert.equal(existsSync(path), false);
      // And so another one can start there.
      await startServer(t, { ...others, frontends: given.frontends.slice(0, 1) });
      assert.equal(await statusOf(others.healthPort, "/healthz"), 200);
    });
  }

  it("for a second frontend on the port of the first says so", async (t) => {
    const port = await freePort();
    const frontends = [tcp("grpc", port), tcp("http-connect", port)];
    assert.equal(
      await startError(t, { frontends }),
      `failed to run the frontend server: ${inUse(port)}`,
    );
    assert.equal(await isOpen(port), false);
  });

  describe("on a Unix path", () => {
    const unix = (path: string): Pick<ServerOptions, "frontends"> => ({
      frontends: [{ protocol: "http-connect", address: { kind: "unix", path } }],
    });
    const failure = (path: string, reason: string) =>
      "failed to run the frontend server: failed to get uds listener: " +
      `failed to listen(unix) name ${path}: listen unix ${path}: bind: ${reason}`;

    it("in a folder that is not there", async (t) => {
      const path = join(temporaryFolder(t), "missing", "x.sock");
      assert.equal(await startError(t, unix(path)), failure(path, "no such file or directory"));
    });

    it("that is too long", async (t) => {
      const path = join(temporaryFolder(t), "x".repeat(120));
      assert.match(await startError(t, unix(path)), /: bind: invalid argument \(/);
    });

    it("that is a file, which is left alone", async (t) => {
      const path = join(temporaryFolder(t), "precious");
      writeFileSync(path, "data");
      for (const deleteExistingUnixSocket of [true, false]) {
        assert.equal(
          await startError(t, { ...unix(path), deleteExistingUnixSocket }),
          failure(path, "address already in use (a file that is no socket)"),
        );
      }
      assert.equal(statSync(path).size, 4);
    });

    it("that is a link, which is left alone", async (t) => {
      const folder = temporaryFolder(t);
      const path = join(folder, "link");
      symlinkSync(join(folder, "target"), path);
      assert.match(await startError(t, unix(path)), /address already in use/);
    });

    it("where another server listens, which goes on", async (t) => {
      const path = join(temporaryFolder(t), "x.sock");
      await startServer(t, unix(path));
      assert.equal(
        await startError(t, unix(path)),
        failure(path, "address already in use (another process listens there)"),
      );
      const client = await connectRaw(t, path);
      client.write(CONNECT);
      await client.whenSaid("No agent available");
    });

    it("where a server has died, only if it may", async (t) => {
      const path = join(temporaryFolder(t), "x.sock");
      await leaveStaleSocket(path);
      assert.equal(
        await startError(t, { ...unix(path), deleteExistingUnixSocket: false }),
        failure(path, "address already in use"),
      );
      await startServer(t, { ...unix(path), unixSocketMode: 0o600 });
      assert.equal(statSync(path).mode & 0o777, 0o600);
      assert.equal(await isOpen(path), true);
    });
  });
});

describe("a server whose TLS material cannot be used", () => {
  const frontendOnTcp: Pick<ServerOptions, "frontends"> = {
    frontends: [{ protocol: "grpc", address: { kind: "tcp", host: "127.0.0.1", port: 0 } }],
  };

  it("does not start without a certificate", async (t) => {
    const missing = "failed to load X509 key pair  and : open : no such file or directory";
    assert.equal(
      await startError(t, { ...frontendOnTcp, serverCertPath: "", serverKeyPath: "" }),
      `failed to run the frontend server: ${missing}`,
    );
    assert.equal(
      await startError(t, { clusterCertPath: "", clusterKeyPath: "" }),
      `failed to run the agent server: ${missing}`,
    );
  });

  it("does not start with CAs that are none", async (t) => {
    const path = join(temporaryFolder(t), "ca.pem");
    writeFileSync(path, "nothing of the kind");
    const reason =
      `failed to load CA cert: error creating pool from ${path}: ` +
      "data does not contain any valid RSA or ECDSA certificates";
    assert.equal(
      await startError(t, { ...frontendOnTcp, serverCaCertPath: path }),
      `failed to run the frontend server: ${reason}`,
    );
    assert.equal(
      await startError(t, { clusterCaCertPath: path }),
      `failed to run the agent server: ${reason}`,
    );
  });

  it("does not let in everybody unless it is told to", async (t) => {
    assert.equal(
      await startError(t, { clusterCaCertPath: "" }),
      "failed to run the agent server: nothing would authenticate agents: set --cluster-ca-cert to " +
        "the CA of their certificates, --agent-namespace and its companions to have them identify by token, or --insecure-allow-unauthenticated-agents to let in whoever " +
        "reaches the port",
    );
    assert.equal(
      await startError(t, { ...frontendOnTcp, serverCaCertPath: "" }),
      "failed to run the frontend server: nothing would authenticate clients: set --server-ca-cert " +
        "to the CA of their certificates, or --insecure-allow-unauthenticated-frontends to let in " +
        "whoever reaches the port",
    );
  });

  it("lets in everybody if it is told to", async (t) => {
    const server = await startServer(t, {
      clusterCaCertPath: "",
      allowUnauthenticatedAgents: true,
      serverCaCertPath: "",
      allowUnauthenticatedFrontends: true,
    });
    const { agentCa } = createTestPki();
    const agent = await connectAsAgent(t, server, {
      channel: credentials.createSsl(Buffer.from(agentCa.cert)),
    });
    const client = await connectRawTls(t, server.connectPort, { cert: undefined, key: undefined });
    client.write(CONNECT);
    const random = (await agent.nextPacket()).dialRequest?.random ?? "";
    agent.send(packets.dialed(random, 1));
    await client.whenSaid("200 Connection Established");
  });

  it("warns of a CA that has expired beside one that has not", async (t) => {
    const pki = createTestPki();
    const past = (hours: number) => new Date(Date.now() - hours * 3_600_000);
    const expired = pki.createCa("old CA", { notBefore: past(48), notAfter: past(24) });
    const path = join(temporaryFolder(t), "ca.pem");
    writeFileSync(path, pki.agentCa.cert + expired.cert);
    const logger = new RecordingLogger();
    const server = await startServer(t, { clusterCaCertPath: path }, { logger });
    const warning = logger.lines.find(({ event }) => event === "tls.warning");
    assert.equal(warning?.level, "warn");
    assert.equal(warning.fields["path"], path);
    assert.match(String(warning.fields["warning"]), /old CA.*expired/);
    await connectAsAgent(t, server);
  });
});

describe("stop", () => {
  it("of an idle server takes no time, and leaves no socket and no port", async (t) => {
    const server = await startServer(t);
    const startedMs = performance.now();
    const stopped = server.server.stop();
    assert.equal(server.server.stop(), stopped);
    await stopped;
    assert.ok(performance.now() - startedMs < 100, `${performance.now() - startedMs} ms`);
    await server.server.stop();
    const { grpcPath, connectPath, grpcPort, connectPort, agentPort, healthPort, adminPort } =
      server;
    const places = [grpcPath, connectPath, grpcPort, connectPort, agentPort, healthPort, adminPort];
    assert.deepEqual(
      await Promise.all(places.map(isOpen)),
      places.map(() => false),
    );
    assert.deepEqual([existsSync(grpcPath), existsSync(connectPath)], [false, false]);
  });

  it("of a server with idle peers takes no time either", async (t) => {
    const server = await startServer(t);
    const agent = await connectAsAgent(t, server);
    const frontend = openProxy(t, server);
    const unused = connectAsFrontend(t, server, "tls");
    const finished = unused.open();
    finished.end();
    await finished.status;
    await connectRaw(t, server.connectPath);
    const tls = await connectRawTls(t, server.connectPort);
    tls.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await tls.whenSaid("405");
    await until(async () => (await whatIsHeld(server.healthPort))["proxyStreams"] === 1);
    const startedMs = performance.now();
    await server.server.stop();
    assert.ok(performance.now() - startedMs < 500, `${performance.now() - startedMs} ms`);
    assert.equal((await agent.status).code, 0);
    assert.equal((await frontend.status).code, 0);
  });

  it("at once tells everybody what becomes of their connections and dials", async (t) => {
    const logger = new RecordingLogger();
    const server = await startServer(t, {}, { logger });
    const agent = await connectAsAgent(t, server);
    const dial = async (id: number) => {
      const random = (await agent.nextPacket()).dialRequest?.random ?? "";
      if (id > 0) agent.send(packets.dialed(random, id));
    };
    const frontend = openProxy(t, server, "tls").send(packets.dial(1));
    await dial(1);
    assert.equal(await frontend.next(), "DIAL_RSP 1 id 1");
    const client = await connectRawTls(t, server.connectPort);
    client.write(CONNECT);
    await dial(2);
    await client.whenSaid("200 Connection Established");
    const dialing = openProxy(t, server).send(packets.dial(3));
    await dial(0);
    const dialingClient = await connectRaw(t, server.connectPath);
    dialingClient.write(CONNECT);
    await dial(0);

    agent.send(packets.data(1, "last words"), packets.data(2, "last words"));
    assert.equal(await frontend.next(), 'DATA 1 "last words"');
    await client.whenSaid("last words");
    await server.server.stop();
    assert.equal(await frontend.next(), 'CLOSE_RSP 1 "proxy server shutting down"');
    assert.equal((await frontend.status).code, 0);
    assert.equal((await client.whenFinished()).fate, "reset");
    assert.equal(await dialing.next(), 'DIAL_RSP 3 "agent connection lost"');
    assert.match((await dialingClient.whenFinished()).text, /^HTTP\/1.1 502 /);
    assert.deepEqual([(await agent.status).code, agent.unread], [0, []]);
    const reasons = logger.lines
      .filter(({ event }) => event === "connection.closed")
      .map(({ fields }) => fields["reason"]);
    assert.deepEqual(reasons, ["shutdown", "shutdown"]);
  });

  it("does not wait for a peer that takes nothing more", async (t) => {
    const server = await startServer(t);
    const relay = await startRelay(t, server.agentPort);
    await connectAsAgent(t, server, { port: relay.port });
    relay.freeze();
    const startedMs = performance.now();
    await server.server.stop();
    const tookMs = performance.now() - startedMs;
    assert.ok(tookMs < 3_000, `${tookMs} ms`);
    assert.equal(await isOpen(server.agentPort), false);
  });

  it("in a graceful way lets connections end, takes no new ones, and tells probes", async (t) => {
    const server = await startServer(t, { gracefulShutdownTimeoutMs: 20_000 });
    const agent = await connectAsAgent(t, server);
    const frontends = connectAsFrontend(t, server);
    const frontend = frontends.open().send(packets.dial(1));
    await agent.next();
    agent.send(packets.dialed(1, 1));
    await frontend.next();
    const client = await connectRaw(t, server.connectPath);
    client.write(CONNECT);
    agent.send(packets.dialed((await agent.nextPacket()).dialRequest?.random ?? "", 2));
    await client.whenSaid("200 Connection Established");
    const idle = await connectRaw(t, server.connectPath);

    assert.equal(await statusOf(server.healthPort, "/readyz"), 200);
    let isStopped = false;
    const stopped = server.server.stop().then(() => (isStopped = true));
    await idle.whenFinished();
    assert.equal(await statusOf(server.healthPort, "/readyz"), 500);
    assert.equal(await statusOf(server.healthPort, "/healthz"), 200);
    assert.match(await scrape(server.healthPort), /established_connections 2\n/);
    const { grpcPath, connectPath, grpcPort, connectPort, agentPort } = server;
    const places = [grpcPath, connectPath, grpcPort, connectPort, agentPort];
    assert.deepEqual(
      await Promise.all(places.map(isOpen)),
      places.map(() => false),
    );

    client.write("still served");
    assert.equal(await agent.next(), 'DATA 2 "still served"');
    agent.send(packets.data(2, "indeed"));
    await client.whenSaid("indeed");
    client.socket.end();
    assert.equal(await agent.next(), "CLOSE_REQ 2");
    frontend.send(packets.data(1, "and this one"));
    assert.equal(await agent.next(), 'DATA 1 "and this one"');
    assert.equal(isStopped, false);
    agent.send(packets.closed(1));
    assert.equal(await frontend.next(), "CLOSE_RSP 1");
    await stopped;
    assert.equal(await isOpen(server.healthPort), false);
  });

  it("in a graceful way cuts what is left when the time is over", async (t) => {
    const server = await startServer(t, { gracefulShutdownTimeoutMs: 80 });
    const agent = await connectAsAgent(t, server);
    const frontend = openProxy(t, server).send(packets.dial(1));
    await agent.next();
    agent.send(packets.dialed(1, 1));
    await frontend.next();
    const startedMs = performance.now();
    await server.server.stop();
    assert.ok(performance.now() - startedMs >= 79);
    assert.equal(await frontend.next(), 'CLOSE_RSP 1 "proxy server shutting down"');
    assert.equal((await agent.status).code, 0);
  });

  it("leaves no handle and no timer behind, whatever went before", async (t) => {
    // Whatever the process needs once, it has after this.
    await (await startServer(t)).server.stop();
    const before = await restingResources();
    const server = await startServer(t);
    const agent = await startAgent(t, server.agentPort);
    await until(async () => (await statusOf(server.healthPort, "/readyz")) === 200);
    const endpoint = await startEndpoint(t, (socket) => {
      socket.on("data", (piece) => socket.write(piece));
      socket.on("end", () => socket.end());
    });
    for (let round = 0; round < 20; round++) {
      const client = await (round % 2 === 0
        ? connectRaw(t, server.connectPath)
        : connectRawTls(t, server.connectPort));
      client.write(`CONNECT ${round % 5 === 0 ? "127.0.0.1:1" : endpoint} HTTP/1.1\r\n\r\necho`);
      if (round % 5 === 0) await client.whenFinished();
      else await client.whenSaid("echo");
      if (round % 3 === 0) client.socket.destroy();
    }
    await agent.stop();
    await server.server.stop();
    // The test's endpoint listens until the test is over.
    const expected = { ...before, TCPServerWrap: (before["TCPServerWrap"] ?? 0) + 1 };
    assert.deepEqual(await restingResources(), expected);
  });
});

/** What keeps the event loop busy, by kind. */
function resources(): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo().sort()) {
    if (/Timeout|Socket|Server|Pipe|TLS/.test(kind)) counts[kind] = (counts[kind] ?? 0) + 1;
  }
  return counts;
}

/** {@link resources}, once they stay the same. */
async function restingResources(): Promise<Record<string, number>> {
  for (let before = ""; ;) {
    const now = resources();
    if (JSON.stringify(now) === before) return now;
    before = JSON.stringify(now);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** A socket file whose server is gone, as SIGKILL leaves it. */
async function leaveStaleSocket(path: string): Promise<void> {
  const { spawn } = await import("node:child_process");
  const script = `require("net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`;
  const child = spawn(process.execPath, ["-e", script]);
  await once(child, "exit");
  assert.equal(existsSync(path), true);
}
