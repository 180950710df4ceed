import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import type { Socket } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import { temporaryFolder, until } from "../../../test/support/cluster.ts";
import { packets } from "../../../test/support/packet-stream.ts";
import { createTestPki } from "../../../test/support/pki.ts";
import { startProxyServer } from "../../../test/support/proxy-server.ts";
import type {
  ProxyServer,
  ProxyServerOptions,
  ProxyStream,
} from "../../../test/support/proxy-server.ts";
import { checkForLeaksAtEnd } from "../../../test/support/tracked-clock.ts";
import { Client } from "../src/client.ts";
import type { ClientOptions } from "../src/client-options.ts";
import { streamError } from "./stream-error.ts";

// Dials against a scripted grpc-js server.

checkForLeaksAtEnd();

const ENDPOINT = "10.0.0.7:80";

interface Setup {
  readonly server: ProxyServer;
  readonly clock: ManualClock;
  readonly client: Client;
}

async function setup(
  t: TestContext,
  serverOptions: ProxyServerOptions = {},
  clientOptions: Partial<ClientOptions> = {},
): Promise<Setup> {
  const server = await startProxyServer(t, serverOptions);
  const clock = new ManualClock(Date.now());
  const client = new Client({ ...optionsFor(server), ...clientOptions }, clock);
  return { server, clock, client };
}

function optionsFor(server: ProxyServer): ClientOptions {
  if (server.port === 0) {
    return { protocol: "grpc", address: { kind: "unix", path: server.path } };
  }
  return {
    protocol: "grpc",
    address: { kind: "tcp", host: "127.0.0.1", port: server.port },
    tls: tlsFiles(),
  };
}

function tlsFiles() {
  const { frontendCa, frontendClient } = createTestPki();
  return {
    caPath: frontendCa.certPath,
    certPath: frontendClient.certPath,
    keyPath: frontendClient.keyPath,
  };
}

/** Take the next dial; returns its id too. */
async function nextDial(server: ProxyServer): Promise<{ stream: ProxyStream; random: string }> {
  const stream = await server.next();
  const { dialRequest } = await stream.nextPacket();
  return { stream, random: dialRequest?.random ?? "" };
}

/** Dial, and let the server say yes. */
async function dialed({ server, client }: Setup, connectionId = 1) {
  const dialing = client.dial(ENDPOINT);
  const { stream, random } = await nextDial(server);
  stream.send(packets.dialed(random, connectionId));
  return { stream, connection: await dialing };
}

/** Nothing is open any more, at either end. */
async function assertNothingLeft({ server, clock }: Setup): Promise<void> {
  await until(() => server.sockets.size === 0);
  assert.equal(clock.pendingTimers, 0);
}

describe("a dial through a gRPC frontend", () => {
  for (const transport of ["unix", "tls"] as const) {
    it(`carries bytes both ways and ends in order, over ${transport}`, async (t) => {
      const all = await setup(t, { transport });
      const dialing = all.client.dial("[2001:db8::1]:443");
      const stream = await all.server.next();
      const request = await stream.nextPacket();
      assert.deepEqual(
        [request.type, request.dialRequest?.protocol, request.dialRequest?.address],
        ["DIAL_REQ", "tcp", "[2001:db8::1]:443"],
      );
      stream.send(packets.dialed(request.dialRequest?.random ?? "", 3));
      const connection = await dialing;

      connection.write("question");
      assert.equal(await stream.next(), 'DATA 3 "question"');
      stream.send(packets.data(3, "answer"));
      const [answer] = (await once(connection, "data")) as [Buffer];
      assert.equal(String(answer), "answer");
      connection.end();
      assert.equal(await stream.next(), "CLOSE_REQ 3");
      const closed = once(connection, "close");
      stream.send(packets.data(3, "rest"), packets.closed(3));
      const [rest] = (await once(connection, "data")) as [Buffer];
      assert.equal(String(rest), "rest");
      await closed;
      await stream.ended;
      await assertNothingLeft(all);
    });
  }

  it("gets what an endpoint says first, with the answer in one piece", async (t) => {
    const all = await setup(t);
    const dialing = all.client.dial(ENDPOINT);
    const { stream, random } = await nextDial(all.server);
    stream.send(packets.dialed(random, 1), packets.data(1, "banner"), packets.closed(1));
    const connection = await dialing;
    const pieces: Buffer[] = [];
    for await (const piece of connection) pieces.push(piece as Buffer);
    assert.equal(String(Buffer.concat(pieces)), "banner");
    await assertNothingLeft(all);
  });

  it("hands over a connection that has already failed, and then tells", async (t) => {
    const all = await setup(t);
    const dialing = all.client.dial(ENDPOINT);
    const { stream, random } = await nextDial(all.server);
    stream.send(packets.dialed(random, 1), packets.closed(1, "read tcp: connection reset by peer"));
    const error = await streamError(await dialing);
    assert.deepEqual(
      [error.code, error.message],
      ["ERR_CONNECTION_LOST", "read tcp: connection reset by peer"],
    );
    await assertNothingLeft(all);
  });

  const refusals = [
    ["No agent available", "ERR_NO_AGENT"],
    ["dial tcp 10.0.0.7:80: connect: connection refused", "ERR_DIAL_FAILED"],
    ["dial tcp 10.0.0.7:80: i/o timeout", "ERR_DIAL_TIMEOUT"],
    ["timed out waiting for backend dial", "ERR_DIAL_TIMEOUT"],
  ] as const;
  for (const [text, code] of refusals) {
    it(`rejects with ${code} for "${text}"`, async (t) => {
      const all = await setup(t);
      const dialing = all.client.dial(ENDPOINT);
      const { stream, random } = await nextDial(all.server);
      stream.send(packets.dialFailed(random, text));
      await assert.rejects(dialing, { name: "ClientError", code, message: text });
      await assertNothingLeft(all);
    });
  }

  it("rejects with ERR_SERVER_PROTOCOL when the server knows no such call", async (t) => {
    const all = await setup(t);
    const dialing = all.client.dial(ENDPOINT);
    const { stream } = await nextDial(all.server);
    stream.fail(12, "unknown service ProxyService");
    await assert.rejects(dialing, {
      code: "ERR_SERVER_PROTOCOL",
      message: "the server ended the call: Unimplemented: unknown service ProxyService",
    });
    await assertNothingLeft(all);
  });

  it("rejects with ERR_SERVER_UNREACHABLE when the server vanishes before it answers", async (t) => {
    const all = await setup(t);
    const dialing = all.client.dial(ENDPOINT);
    await nextDial(all.server);
    all.server.vanish();
    await assert.rejects(dialing, { code: "ERR_SERVER_UNREACHABLE" });
    await assertNothingLeft(all);
  });

  it("rejects with ERR_SERVER_UNREACHABLE, and the system's words, when nobody listens", async (t) => {
    const missing = join(temporaryFolder(t), "nobody.sock");
    const unix = new Client({ protocol: "grpc", address: { kind: "unix", path: missing } });
    await assert.rejects(unix.dial(ENDPOINT), {
      code: "ERR_SERVER_UNREACHABLE",
      message: `server ${missing}: connect: no such file or directory`,
    });
    const server = await startProxyServer(t, { transport: "tls" });
    server.vanish();
    const tls = new Client(optionsFor(server));
    await assert.rejects(tls.dial(ENDPOINT), {
      code: "ERR_SERVER_UNREACHABLE",
      message: `server 127.0.0.1:${server.port}: connect: connection refused`,
    });
  });

  it("rejects with ERR_SERVER_UNREACHABLE when the server is not who it should be", async (t) => {
    const { agentCa } = createTestPki();
    const foreign = await setup(
      t,
      { transport: "tls" },
      { tls: { ...tlsFiles(), caPath: agentCa.certPath } },
    );
    await assert.rejects(foreign.client.dial(ENDPOINT), {
      code: "ERR_SERVER_UNREACHABLE",
      message: /: tls: wrong CA: the server's certificate is not signed by an authority in our CA/,
    });
    const misnamed = await setup(
      t,
      { transport: "tls" },
      { tls: { ...tlsFiles(), serverName: "other.example" } },
    );
    await assert.rejects(misnamed.client.dial(ENDPOINT), {
      code: "ERR_SERVER_UNREACHABLE",
      message: /: tls: wrong name: expected other.example/,
    });
    await assertNothingLeft(foreign);
    await assertNothingLeft(misnamed);
  });

  it("rejects with ERR_INVALID_OPTIONS for TLS files that cannot be used, and tries again", async (t) => {
    const tls = { ...tlsFiles(), keyPath: createTestPki().agentCa.keyPath };
    const all = await setup(t, { transport: "tls" }, { tls });
    for (let i = 0; i < 2; i++) {
      await assert.rejects(all.client.dial(ENDPOINT), {
        code: "ERR_INVALID_OPTIONS",
        message: /^failed to load X509 key pair .*: tls: private key does not match public key$/,
      });
    }
    assert.equal(all.server.socketCount, 0);
    await assertNothingLeft(all);
  });

  it("rejects when OpenSSL refuses the certificate, and tries again", async (t) => {
    const pki = createTestPki();
    const { certPath, keyPath } = pki.issue({ ca: pki.frontendCa, keyBits: 512 });
    const tls = { ...tlsFiles(), certPath, keyPath };
    const all = await setup(t, { transport: "tls" }, { tls });
    for (let i = 0; i < 2; i++) {
      await assert.rejects(all.client.dial(ENDPOINT), {
        code: "ERR_SERVER_UNREACHABLE",
        message: /^server 127\.0\.0\.1:\d+: tls: .*ee key too small/,
      });
    }
    await assertNothingLeft(all);
  });

  it("finds its answer, whatever bits its id has", async (t) => {
    const server = await startProxyServer(t);
    for (const id of [0, 5, 2 ** 53 - 1, 2n ** 53n, 2n ** 63n - 1n]) {
      const random = { int63: () => id, fraction: () => 0, uuid: () => "" };
      const client = new Client(optionsFor(server), new ManualClock(), random);
      const dialing = client.dial(ENDPOINT);
      const dial = await nextDial(server);
      assert.equal(dial.random, String(id));
      dial.stream.send(packets.dialed(dial.random, 1));
      (await dialing).destroy();
    }
  });
});

describe("a connection through a gRPC frontend", () => {
  it("is lost when the server vanishes", async (t) => {
    const all = await setup(t);
    const { connection } = await dialed(all);
    all.server.vanish();
    assert.equal((await streamError(connection)).code, "ERR_CONNECTION_LOST");
    await assertNothingLeft(all);
  });

  it("is lost when the server ends the call in order, but without CLOSE_RSP", async (t) => {
    const all = await setup(t);
    const { connection, stream } = await dialed(all);
    stream.send(packets.data(1, "not all of it"));
    await once(connection, "data");
    stream.end();
    const error = await streamError(connection);
    assert.equal(error.code, "ERR_CONNECTION_LOST");
    assert.equal(connection.readableEnded, false);
    await assertNothingLeft(all);
  });

  it("ends in order when the server vanishes behind CLOSE_RSP", async (t) => {
    const all = await setup(t, { answersEnd: false });
    const { connection, stream } = await dialed(all);
    stream.send(packets.data(1, "all of it"), packets.closed(1));
    const pieces: Buffer[] = [];
    connection.on("data", (piece: Buffer) => pieces.push(piece));
    await once(connection, "end");
    all.server.vanish();
    await assertNothingLeft(all);
    assert.equal(String(Buffer.concat(pieces)), "all of it");
    assert.equal(connection.errored, null);
  });

  it("segments what is written in one call, and keeps to the server's pace", async (t) => {
    const all = await setup(t);
    const { connection, stream } = await dialed(all);
    const bytes = Buffer.alloc(5 * 1024 * 1024, "abcdefghijklmnop+");
    const collected = stream.collect(1);
    connection.end(bytes);
    stream.serve(({ type }) => {
      if (type === "CLOSE_REQ") stream.send(packets.closed(1));
    });
    void collected;
    await once(connection, "finish");
  });

  for (const transport of ["unix", "tls"] as const) {
    it(`hands out what its reader may keep, be it small or large, over ${transport}`, async (t) => {
      const all = await setup(t, { transport });
      const { connection, stream } = await dialed(all);
      const kept: Buffer[] = [];
      connection.on("data", (piece: Buffer) => {
        // No piece holds much of what was read around it, but for Node's pool of 8 KiB.
        assert.ok(piece.buffer.byteLength <= Math.max(2 * piece.length, 8_192));
        const isMoved = kept.length % 2 === 0;
        kept.push(isMoved ? Buffer.from(piece) : piece);
        if (!isMoved) return;
        try {
          structuredClone(piece, { transfer: [piece.buffer as ArrayBuffer] });
        } catch {
          // Newer versions of Node refuse to move what others have a part of.
        }
      });
      const sent = Array.from({ length: 200 }, (_, index) =>
        Buffer.alloc(index % 3 === 0 ? 50 : 20_000, index),
      );
      for (const bytes of sent) {
        stream.send(packets.data(1, bytes));
        if (bytes.length === 50) await new Promise((resolve) => setImmediate(resolve));
      }
      stream.send(packets.closed(1));
      await once(connection, "end");
      assert.equal(Buffer.compare(Buffer.concat(kept), Buffer.concat(sent)), 0);
      await assertNothingLeft(all);
    });
  }

  for (const transport of ["unix", "tls"] as const) {
    it(`with onRead hands out what it has read, in memory that is used again, over ${transport}`, async (t) => {
      const all = await setup(t, { transport });
      const memory = new Set<ArrayBufferLike>();
      const seen: Buffer[] = [];
      const onRead = (bytes: Buffer) => {
        seen.push(Buffer.from(bytes));
        memory.add(bytes.buffer);
        bytes.fill(0xee);
      };
      const dialing = all.client.dial(ENDPOINT, { onRead });
      const { stream, random } = await nextDial(all.server);
      stream.send(packets.dialed(random, 1), packets.data(1, "banner"));
      const connection = await dialing;
      assert.equal(seen.length, 0, "before it was dialed");
      const expected = [Buffer.from("banner")];
      for (let index = 0; index < 200; index++) {
        const bytes = Buffer.alloc(index % 3 === 0 ? 50 : 20_000, index);
        expected.push(bytes);
        stream.send(packets.data(1, bytes));
        if (bytes.length === 50) await new Promise((resolve) => setImmediate(resolve));
      }
      stream.send(packets.closed(1));
      await once(connection, "end");
      assert.equal(Buffer.compare(Buffer.concat(seen), Buffer.concat(expected)), 0);
      // 3 MB, in a shared buffer, blocks of 288 KiB, and what had to be copied at first.
      assert.ok(memory.size < 20, `in ${memory.size} pieces of memory`);
      await assertNothingLeft(all);
    });
  }

  it("that is destroyed is closed for the server, unread bytes or not", async (t) => {
    const all = await setup(t);
    const { connection, stream } = await dialed(all);
    stream.send(packets.data(1, Buffer.alloc(300_000)));
    connection.write("half a request");
    await until(() => connection.readableLength > 0);
    connection.destroy();
    assert.equal(await stream.next(), 'DATA 1 "half a request"');
    await stream.ended;
    await assertNothingLeft(all);
  });

  it("that is destroyed while the server takes nothing is cut after ten seconds", async (t) => {
    const all = await setup(t);
    const { connection, stream } = await dialed(all);
    stream.call.pause();
    // More than the server's window, so the end cannot get through.
    connection.write(Buffer.alloc(4 * 1024 * 1024));
    connection.destroy();
    await once(connection, "close");
    all.clock.advance(9_999);
    assert.equal(all.server.sockets.size, 1);
    all.clock.advance(1);
    await assertNothingLeft(all);
  });
});

describe("the HTTP/2 connection to the server", () => {
  it("is shared by everything that overlaps in time, and ends with the last of it", async (t) => {
    const all = await setup(t);
    const { server, client } = all;
    const dials = Array.from({ length: 100 }, () => client.dial(ENDPOINT));
    for (let id = 1; id <= 100; id++) {
      const { stream, random } = await nextDial(server);
      if (id % 10 === 0) stream.send(packets.dialFailed(random, "dial tcp: refused"));
      else stream.send(packets.dialed(random, id));
    }
    const outcomes = await Promise.allSettled(dials);
    const open = outcomes.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    assert.equal(open.length, 90);
    assert.equal(server.socketCount, 1);
    open.push((await dialed(all)).connection);
    assert.equal(server.socketCount, 1);
    for (const connection of open) connection.destroy();
    await assertNothingLeft(all);
  });

  it("is another one for those with onRead, whose memory is used again", async (t) => {
    const all = await setup(t);
    const open = [(await dialed(all, 1)).connection];
    for (const id of [2, 3]) {
      const dialing = all.client.dial(ENDPOINT, { onRead: () => undefined });
      const { stream, random } = await nextDial(all.server);
      stream.send(packets.dialed(random, id));
      open.push(await dialing);
    }
    open.push((await dialed(all, 4)).connection);
    assert.equal(all.server.socketCount, 2);
    for (const connection of open) connection.destroy();
    await assertNothingLeft(all);
  });

  it("is made anew for a dial after the last connection has ended", async (t) => {
    const all = await setup(t);
    for (let count = 1; count <= 5; count++) {
      const { connection, stream } = await dialed(all);
      stream.send(packets.closed(1));
      connection.resume();
      await once(connection, "close");
      await assertNothingLeft(all);
      assert.equal(all.server.socketCount, count);
    }
  });

  it("is left to what it carries once the server has sent GOAWAY, and closed with the last of that", async (t) => {
    const all = await setup(t, { grpc: { "grpc.max_connection_age_ms": 200 } });
    const { server } = all;
    const old = await dialed(all);
    const [oldSocket] = server.sockets;
    // GOAWAY has no answer: dial until one goes elsewhere. One that crosses it is refused.
    server.serve((stream, random) => stream.send(packets.dialed(random, 2)));
    await until(async () => {
      const connection = await all.client.dial(ENDPOINT).catch(() => undefined);
      connection?.destroy();
      return server.socketCount === 2;
    });
    assert.ok(server.sockets.has(oldSocket!));
    old.stream.send(packets.data(1, "still here"));
    await once(old.connection, "data");
    old.connection.destroy();
    await assertNothingLeft(all);
  });

  it("is not the only one when the server limits the connections on one", async (t) => {
    const all = await setup(t, { grpc: { "grpc.max_concurrent_streams": 2 } });
    const connections = [];
    for (let id = 1; id <= 5; id++) connections.push((await dialed(all, id)).connection);
    assert.equal(all.server.sockets.size, 3);
    for (const connection of connections) connection.destroy();
    await assertNothingLeft(all);
  });

  it("is attempted once for all who want it, and they all hear of its failure", async (t) => {
    const path = join(temporaryFolder(t), "nobody.sock");
    const client = new Client({ protocol: "grpc", address: { kind: "unix", path } });
    const outcomes = await Promise.allSettled([1, 2, 3].map(() => client.dial(ENDPOINT)));
    for (const outcome of outcomes) {
      assert.equal(outcome.status, "rejected");
      assert.equal((outcome.reason as { code: string }).code, "ERR_SERVER_UNREACHABLE");
    }
  });
});

/** A server that accepts, and then does what it is told to. */
async function startMuteServer(
  t: TestContext,
  onSocket: (socket: Socket) => void = () => undefined,
) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    socket.on("error", () => undefined);
    socket.resume();
    onSocket(socket);
  });
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  return { port, sockets };
}

describe("the time for a dial", () => {
  const steps = ["connecting", "TLS handshake", "HTTP/2", "answer"] as const;
  for (const step of steps) {
    for (const how of ["ends", "is cut short by a signal"] as const) {
      it(`${how} while it waits for: ${step}; nothing is left`, async (t) => {
        const clock = new ManualClock(Date.now());
        const scripted =
          step === "answer" ? await startProxyServer(t, { transport: "tls" }) : undefined;
        const mute = await startMuteServer(t);
        const sockets = scripted?.sockets ?? mute.sockets;
        const client = new Client(
          {
            protocol: "grpc",
            // An address that drops what is sent to it would be needed to wait for TCP itself.
            address: { kind: "tcp", host: "127.0.0.1", port: scripted?.port ?? mute.port },
            ...(step === "HTTP/2" ? {} : { tls: tlsFiles() }),
            dialTimeoutMs: 5_000,
          },
          clock,
        );
        const controller = new AbortController();
        const dialing = client.dial(ENDPOINT, { signal: controller.signal });
        if (step !== "connecting") await until(() => sockets.size === 1);
        const stream = await scripted?.next();
        assert.match((await stream?.next()) ?? "DIAL_REQ", /^DIAL_REQ/);

        if (how === "ends") {
          clock.advance(4_999);
          clock.advance(1);
          const expected =
            step === "HTTP/2" || step === "answer"
              ? "waiting for the server's answer"
              : `connecting to server 127.0.0.1:${scripted?.port ?? mute.port}`;
          await assert.rejects(dialing, {
            code: "ERR_DIAL_TIMEOUT",
            message: `dial of ${ENDPOINT} not done after 5000 ms: ${expected}`,
          });
        } else {
          controller.abort(new Error("enough"));
          await assert.rejects(dialing, { message: "enough" });
        }
        if (stream !== undefined) {
          assert.match(await stream.next(), /^DIAL_CLS/);
          await stream.ended;
        }
        // A server that says nothing at all is given a while to end the call.
        if (step === "HTTP/2") clock.advance(10_000);
        await until(() => sockets.size === 0);
        await until(() => clock.pendingTimers === 0);
      });
    }
  }

  it("is each dial's own, though they wait for one connection to the server", async (t) => {
    const clock = new ManualClock(Date.now());
    const { port, sockets } = await startMuteServer(t);
    const address = { kind: "tcp", host: "127.0.0.1", port } as const;
    const client = new Client({ protocol: "grpc", address, tls: tlsFiles() }, clock);
    const controller = new AbortController();
    const aborted = client.dial(ENDPOINT, { signal: controller.signal });
    const short = client.dial(ENDPOINT, { timeoutMs: 1_000 });
    const long = client.dial(ENDPOINT, { timeoutMs: 3_000 });
    let isLongOver = false;
    long.catch(() => (isLongOver = true));
    await until(() => sockets.size === 1);

    controller.abort(new Error("enough"));
    await assert.rejects(aborted, { message: "enough" });
    clock.advance(1_000);
    await assert.rejects(short, { code: "ERR_DIAL_TIMEOUT" });
    assert.deepEqual([isLongOver, sockets.size], [false, 1]);
    clock.advance(2_000);
    await assert.rejects(long, { code: "ERR_DIAL_TIMEOUT" });
    await until(() => sockets.size === 0);
    assert.equal(clock.pendingTimers, 0);
  });

  it("does not begin when the signal has already aborted", async (t) => {
    const all = await setup(t);
    await assert.rejects(
      all.client.dial(ENDPOINT, { signal: AbortSignal.abort("no") }),
      (reason) => {
        return reason === "no";
      },
    );
    assert.equal(all.server.socketCount, 0);
  });

  it("can be given up for a reason that is no error", async (t) => {
    const all = await setup(t);
    const controller = new AbortController();
    const dialing = all.client.dial(ENDPOINT, { signal: controller.signal });
    await nextDial(all.server);
    controller.abort("because");
    await assert.rejects(dialing, (reason) => reason === "because");
    await assertNothingLeft(all);
  });

  it("does not bring down anything when the answer comes late", async (t) => {
    const all = await setup(t, { answersEnd: false });
    const dialing = all.client.dial(ENDPOINT, { timeoutMs: 1_000 });
    const { stream, random } = await nextDial(all.server);
    const other = await dialed(all, 2);
    all.clock.advance(1_000);
    await assert.rejects(dialing, { code: "ERR_DIAL_TIMEOUT" });
    assert.equal(await stream.next(), `DIAL_CLS ${random}`);
    stream.send(packets.dialed(random, 1), packets.data(1, "too late"), packets.closed(1, "reset"));
    stream.end();
    other.stream.send(packets.data(2, "alive"));
    const [piece] = (await once(other.connection, "data")) as [Buffer];
    assert.equal(String(piece), "alive");
    other.connection.destroy();
    other.stream.end();
    await assertNothingLeft(all);
  });

  it("is over once the connection is open", async (t) => {
    const all = await setup(t);
    const controller = new AbortController();
    const dialing = all.client.dial(ENDPOINT, { timeoutMs: 1_000, signal: controller.signal });
    const { stream, random } = await nextDial(all.server);
    stream.send(packets.dialed(random, 1));
    const connection = await dialing;
    assert.equal(all.clock.pendingTimers, 0);
    all.clock.advance(5_000);
    controller.abort();
    stream.send(packets.data(1, "alive"));
    await once(connection, "data");
    connection.destroy();
    await assertNothingLeft(all);
  });
});

describe("close()", () => {
  it("ends dials and connections, with nothing left, and takes no more", async (t) => {
    const all = await setup(t);
    const { connection } = await dialed(all);
    const pending = all.client.dial(ENDPOINT);
    await nextDial(all.server);
    const closed = once(connection, "close");
    all.client.close();
    all.client.close();
    await assert.rejects(pending, { code: "ERR_CLIENT_CLOSED", message: "the client is closed" });
    await closed;
    assert.equal(connection.readableEnded, false);
    await assertNothingLeft(all);
    await assert.rejects(all.client.dial(ENDPOINT), { code: "ERR_CLIENT_CLOSED" });
    assert.equal(all.server.socketCount, 1);
  });

  it("ends an attempt to connect", async (t) => {
    const clock = new ManualClock(Date.now());
    const { port, sockets } = await startMuteServer(t);
    const address = { kind: "tcp", host: "127.0.0.1", port } as const;
    const client = new Client({ protocol: "grpc", address, tls: tlsFiles() }, clock);
    const dialing = client.dial(ENDPOINT);
    await until(() => sockets.size === 1);
    client.close();
    await assert.rejects(dialing, { code: "ERR_CLIENT_CLOSED" });
    await until(() => sockets.size === 0);
    assert.equal(clock.pendingTimers, 0);
  });
});

describe("a server that does not speak gRPC", () => {
  it("is refused when it has not agreed on HTTP/2", async (t) => {
    const { serverFrontend } = createTestPki();
    const { createServer: createTlsServer } = await import("node:tls");
    const server = createTlsServer(
      { cert: serverFrontend.cert, key: serverFrontend.key },
      (socket) => socket.on("error", () => undefined),
    );
    t.after(() => server.close());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const address = { kind: "tcp", host: "127.0.0.1", port } as const;
    const client = new Client({ protocol: "grpc", address, tls: tlsFiles() });
    await assert.rejects(client.dial(ENDPOINT), {
      code: "ERR_SERVER_PROTOCOL",
      message: `server 127.0.0.1:${port}: the server agreed on no protocol where h2 is needed (ALPN)`,
    });
  });

  it("is given up when it answers garbage", async (t) => {
    const { port, sockets } = await startMuteServer(t, (socket) => {
      socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    const client = new Client({
      protocol: "grpc",
      address: { kind: "tcp", host: "127.0.0.1", port },
    });
    await assert.rejects(client.dial(ENDPOINT), { code: "ERR_SERVER_UNREACHABLE" });
    await until(() => sockets.size === 0);
  });
});
