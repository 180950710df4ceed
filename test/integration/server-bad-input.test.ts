import assert from "node:assert/strict";
import { createCipheriv } from "node:crypto";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { connect as connectTls } from "node:tls";
import type { ConnectionOptions } from "node:tls";
import { RecordingLogger } from "@reachback/common/testing";
import { startServer, statusOf, until } from "../support/cluster.ts";
import type { TestServer } from "../support/cluster.ts";
import { assertNothingLeft } from "../support/gauges.ts";
import { connectAsAgent, openProxy, packets } from "../support/packet-stream.ts";
import { createTestPki } from "../support/pki.ts";
import { connectRaw, connectRawTls } from "../support/raw-socket.ts";
import type { RawSocket } from "../support/raw-socket.ts";

// Peers that do not know how to behave, on every listener: each gets its answer or a close, the
// others are served as before, and nothing of it stays.

type Listener =
  "grpc" | "connect" | "grpc on TLS" | "connect on TLS" | "agents" | "health" | "admin";

/** Connect to a listener; by TLS where it has it, with a certificate that it accepts. */
function connectTo(t: TestContext, server: TestServer, listener: Listener): Promise<RawSocket> {
  const { agentCa, agentClient } = createTestPki();
  switch (listener) {
    case "grpc":
      return connectRaw(t, server.grpcPath);
    case "connect":
      return connectRaw(t, server.connectPath);
    case "grpc on TLS":
      return connectRawTls(t, server.grpcPort, { ALPNProtocols: ["h2"] });
    case "connect on TLS":
      return connectRawTls(t, server.connectPort);
    case "agents":
      return connectRawTls(t, server.agentPort, {
        ALPNProtocols: ["h2"],
        ca: agentCa.cert,
        cert: agentClient.cert,
        key: agentClient.key,
      });
    case "health":
      return connectRaw(t, server.healthPort);
    case "admin":
      return connectRaw(t, server.adminPort);
  }
}

const HTTP2_LISTENERS: readonly Listener[] = ["grpc", "grpc on TLS", "agents"];
const HTTP1_LISTENERS: readonly Listener[] = ["connect", "connect on TLS", "health", "admin"];
const LISTENERS = [...HTTP2_LISTENERS, ...HTTP1_LISTENERS];

/** Bytes that are no protocol's. */
function garbage(bytes: number, seed: number): Buffer {
  const key = Buffer.alloc(16, seed);
  return createCipheriv("aes-128-ctr", key, Buffer.alloc(16)).update(Buffer.alloc(bytes));
}

const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const EMPTY_SETTINGS = Buffer.from("000000040000000000", "hex");

function frame(type: number, flags: number, streamId: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

/** Dials are served on the gRPC frontend, and nothing of what came before is left. */
async function assertServing(t: TestContext, server: TestServer): Promise<void> {
  const agent = await connectAsAgent(t, server);
  const frontend = openProxy(t, server).send(packets.dial(1));
  await agent.next();
  agent.send(packets.dialed(1, 1), packets.data(1, "served"));
  assert.equal(await frontend.next(), "DIAL_RSP 1 id 1");
  assert.equal(await frontend.next(), 'DATA 1 "served"');
  frontend.end();
  await frontend.status;
  assert.equal(await statusOf(server.healthPort, "/healthz"), 200);
  await assertNothingLeft(server);
  agent.end();
  await agent.status;
}

/** With every socket gone, a server stops at once; otherwise it gives them two seconds. */
async function assertStopsAtOnce({ server }: TestServer): Promise<void> {
  const startedMs = performance.now();
  await server.stop();
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs < 1_000, `it took ${tookMs} ms`);
}

describe("every listener", () => {
  for (const listener of LISTENERS) {
    it(`${listener} survives peers that say nothing, half a thing, or nonsense`, async (t) => {
      const server = await startServer(t);
      const finish: Readonly<Record<string, (client: RawSocket) => void>> = {
        ends: (client) => client.socket.end(),
        vanishes: (client) => client.socket.destroy(),
        resets: (client) => {
          const isPlainTcp = listener === "health" || listener === "admin";
          if (isPlainTcp) client.socket.resetAndDestroy();
          else client.socket.destroy();
        },
      };
      const halves = HTTP2_LISTENERS.includes(listener)
        ? [
            PREFACE.subarray(0, 10),
            PREFACE,
            Buffer.concat([PREFACE, EMPTY_SETTINGS]),
            Buffer.concat([PREFACE, EMPTY_SETTINGS, Buffer.from("00000f", "hex")]),
            Buffer.concat([PREFACE, EMPTY_SETTINGS, frame(1, 0, 1, Buffer.from([0x82]))]),
          ]
        : [
            "GE",
            "GET / HTTP/1.1",
            "GET / HTTP/1.1\r\nHost: x\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
          ].map((text) => Buffer.from(text));
      const seeds = [1, 2, 3];
      const nonsense = seeds.map((seed) => garbage(1_000 * seed, seed));
      for (const bytes of [Buffer.alloc(0), ...halves, ...nonsense]) {
        for (const go of Object.values(finish)) {
          const client = await connectTo(t, server, listener);
          if (bytes.length > 0) client.write(bytes);
          await new Promise((resolve) => setImmediate(resolve));
          go(client);
        }
      }
      await assertServing(t, server);
      await assertStopsAtOnce(server);
    });

    it(`${listener} closes a connection that talks nonsense`, async (t) => {
      const server = await startServer(t);
      const client = await connectTo(t, server, listener);
      client.write(garbage(100_000, 4));
      await client.whenFinished();
      await assertServing(t, server);
      await assertStopsAtOnce(server);
    });
  }

  for (const listener of HTTP1_LISTENERS) {
    it(`${listener} refuses HTTP/2`, async (t) => {
      const server = await startServer(t);
      const client = await connectTo(t, server, listener);
      client.write(Buffer.concat([PREFACE, EMPTY_SETTINGS]));
      const { text } = await client.whenFinished();
      assert.match(text, /^HTTP\/1.1 (?:405 Method Not Allowed|400 Bad Request)\r\n/);
      await assertStopsAtOnce(server);
    });

    it(`${listener} refuses a head of more than a megabyte`, async (t) => {
      const server = await startServer(t);
      const client = await connectTo(t, server, listener);
      client.write(`GET / HTTP/1.1\r\nHost: x\r\nX-Large: ${"a".repeat(1_100_000)}`);
      const { text } = await client.whenFinished();
      assert.match(text, /^HTTP\/1.1 431 Request Header Fields Too Large\r\n/);
    });
  }

  for (const listener of HTTP2_LISTENERS) {
    it(`${listener} says to HTTP/1 that it is the wrong port`, async (t) => {
      const server = await startServer(t);
      const client = await connectTo(t, server, listener);
      client.write("CONNECT endpoint:80 HTTP/1.1\r\nHost: endpoint:80\r\n\r\n");
      const { text } = await client.whenFinished();
      assert.ok(text.includes("this port speaks HTTP/2 only"), text);
      await assertStopsAtOnce(server);
    });

    const broken: Readonly<Record<string, Buffer>> = {
      "a frame that is too large": frame(0, 0, 1, Buffer.alloc(200_000)),
      "DATA on a stream that never began": frame(0, 0, 1, Buffer.from("x")),
      "a header block that is none": frame(1, 4, 1, garbage(64, 5)),
      "a stream number of the server's": frame(1, 4, 2, Buffer.from([0x82])),
      "SETTINGS of a broken length": frame(4, 0, 0, Buffer.alloc(5)),
      "a PUSH_PROMISE": frame(5, 4, 1, Buffer.alloc(8)),
    };
    for (const [what, bytes] of Object.entries(broken)) {
      it(`${listener} ends a connection with ${what}`, async (t) => {
        const server = await startServer(t);
        const client = await connectTo(t, server, listener);
        client.write(Buffer.concat([PREFACE, EMPTY_SETTINGS, bytes]));
        await client.whenFinished();
        // The last frame is GOAWAY.
        assert.ok(client.received.includes(Buffer.from("070000000000", "hex")));
        await assertServing(t, server);
      });
    }
  }
});

describe("TLS listeners", () => {
  type TlsListener = "agents" | "grpc frontend" | "http-connect frontend";

  const portOf = (server: TestServer, listener: TlsListener): number =>
    ({
      agents: server.agentPort,
      "grpc frontend": server.grpcPort,
      "http-connect frontend": server.connectPort,
    })[listener];

  /** Options of a client that the listener would accept. */
  function goodClient(listener: TlsListener): ConnectionOptions {
    const pki = createTestPki();
    const [ca, own] =
      listener === "agents" ? [pki.agentCa, pki.agentClient] : [pki.frontendCa, pki.frontendClient];
    return {
      ca: ca.cert,
      cert: own.cert,
      key: own.key,
      ALPNProtocols: [listener === "http-connect frontend" ? "http/1.1" : "h2"],
    };
  }

  const bad: readonly {
    readonly what: string;
    readonly options: (listener: TlsListener) => ConnectionOptions;
    readonly reason: RegExp;
    readonly not?: TlsListener;
  }[] = [
    {
      what: "without a certificate",
      options: () => ({ cert: undefined, key: undefined }),
      reason: /^the client presented no certificate \(/,
    },
    {
      what: "with a certificate of another CA",
      options: () => {
        const pki = createTestPki();
        const { cert, key } = pki.issue({ ca: pki.kubeletCa, usage: "client" });
        return { cert, key };
      },
      reason: /^wrong CA: the client's certificate is not signed by an authority in our CA file \(/,
    },
    {
      what: "with the other kind of client certificate",
      options: (listener) => {
        const pki = createTestPki();
        const { cert, key } = listener === "agents" ? pki.frontendClient : pki.agentClient;
        return { cert, key };
      },
      reason: /^wrong CA: /,
    },
    {
      what: "with an expired certificate",
      options: (listener) => {
        const pki = createTestPki();
        const ca = listener === "agents" ? pki.agentCa : pki.frontendCa;
        const notAfter = new Date(Date.now() - 60_000);
        const notBefore = new Date(Date.now() - 3_600_000);
        const { cert, key } = pki.issue({ ca, usage: "client", notBefore, notAfter });
        return { cert, key };
      },
      reason: /^the client's certificate, or its authority's, has expired \(/,
    },
    {
      what: "with a certificate for servers",
      options: (listener) => {
        const pki = createTestPki();
        const ca = listener === "agents" ? pki.agentCa : pki.frontendCa;
        const { cert, key } = pki.issue({ ca, usage: "server" });
        return { cert, key };
      },
      reason: /^the client's certificate is not meant for a client/,
    },
    {
      what: "without ALPN",
      options: () => ({ ALPNProtocols: undefined }),
      reason: /^the client agreed on no protocol where h2 is needed \(ALPN\)$/,
      // Go's HTTP/1 clients need none.
      not: "http-connect frontend",
    },
    {
      what: "that offers other protocols",
      options: (listener) => ({
        ALPNProtocols: [listener === "http-connect frontend" ? "h2" : "http/1.1"],
      }),
      reason: /^the client offers none of the protocols spoken here \(ALPN\)/,
    },
    {
      what: "that knows only TLS 1.1",
      options: () => ({ minVersion: "TLSv1.1", maxVersion: "TLSv1.1", ciphers: "ALL:@SECLEVEL=0" }),
      reason: /^the client offers no TLS version that is accepted here/,
    },
  ];

  for (const listener of ["agents", "grpc frontend", "http-connect frontend"] as const) {
    for (const { what, options, reason, not } of bad) {
      if (not === listener) continue;
      it(`${listener}: a client ${what} is refused, and the log says why`, async (t) => {
        const logger = new RecordingLogger();
        const server = await startServer(t, {}, { logger });
        const socket = connectTls({
          port: portOf(server, listener),
          host: "127.0.0.1",
          servername: "localhost",
          ...goodClient(listener),
          ...options(listener),
        } as ConnectionOptions);
        t.after(() => {
          socket.destroy();
        });
        const closed = new Promise((resolve) => socket.once("close", resolve));
        let localPort: number | undefined;
        socket.once("connect", () => (localPort = socket.localPort));
        socket.on("error", () => undefined);
        socket.resume();
        await closed;
        await until(() => rejections(logger).length > 0);
        const [rejection = {}] = rejections(logger);
        assert.match(String(rejection["reason"]), reason);
        assert.deepEqual([rejection["peer"], rejection["peerPort"]], ["127.0.0.1", localPort]);
        assert.equal(rejection["listener"], listener);
        await assertStopsAtOnce(server);
      });
    }

    it(`${listener}: plain text is refused, and the log says so`, async (t) => {
      for (const bytes of ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", PREFACE, garbage(500, 6)]) {
        const logger = new RecordingLogger();
        const server = await startServer(t, {}, { logger });
        const client = await connectRaw(t, portOf(server, listener));
        client.write(bytes);
        await client.whenFinished();
        await until(() => rejections(logger).length > 0);
        assert.match(
          String(rejections(logger)[0]?.["reason"]),
          /^the client (?:does not speak TLS|speaks plain HTTP, not TLS|.*) \(ERR_SSL_/,
        );
        await assertStopsAtOnce(server);
      }
    });
  }

  it("a client that hangs up in the handshake costs nobody else anything", async (t) => {
    const server = await startServer(t);
    for (const port of [server.agentPort, server.grpcPort, server.connectPort]) {
      for (let round = 0; round < 5; round++) {
        const client = await connectRaw(t, port);
        client.write(Buffer.from("160301", "hex"));
        client.socket.resetAndDestroy();
      }
    }
    await assertServing(t, server);
  });

  it("a CONNECT client needs no ALPN", async (t) => {
    const server = await startServer(t);
    const client = await connectRawTls(t, server.connectPort, {});
    client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await client.whenSaid("HTTP/1.1 405 ");
  });
});

function rejections(logger: RecordingLogger) {
  return logger.lines
    .filter(({ event }) => event === "listener.rejected")
    .map(({ fields }) => fields);
}
