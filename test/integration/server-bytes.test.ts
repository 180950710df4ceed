import assert from "node:assert/strict";
import { createCipheriv, createHash } from "node:crypto";
import type { Socket } from "node:net";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import {
  startAgent,
  startEndpoint,
  startServer,
  statusOf,
  until,
  TEST_FLOW,
} from "../support/cluster.ts";
import type { TestServer } from "../support/cluster.ts";
import { assertNothingLeft, whatIsHeld } from "../support/gauges.ts";
import { encodePacket } from "../support/grpc-oracle.ts";
import { connectAsAgent, openProxy, packets } from "../support/packet-stream.ts";
import type { PacketStream } from "../support/packet-stream.ts";
import { RawSocket, connectRaw, connectRawTls } from "../support/raw-socket.ts";

// What a frontend is given arrives: whole, in order, behind the answer to its dial, and what ends
// too early does not look complete.

const ESTABLISHED = "HTTP/1.1 200 Connection Established\r\n\r\n";
const MIB = 1024 * 1024;

const CONNECT_FRONTENDS = {
  "a Unix socket": (t: TestContext, server: TestServer) => connectRaw(t, server.connectPath),
  "mutual TLS": (t: TestContext, server: TestServer) => connectRawTls(t, server.connectPort),
} as const;

/** Bytes that are nowhere alike, so that nothing lost or exchanged goes unseen. */
function noise(bytes: number, seed: number): Buffer {
  const key = Buffer.alloc(16, seed);
  return createCipheriv("aes-128-ctr", key, Buffer.alloc(16)).update(Buffer.alloc(bytes));
}

function digest(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** A server with one of our agents. */
async function startWithAgent(t: TestContext): Promise<TestServer> {
  // Over TLS and TCP, a client that has gone looks like one that has only finished sending.
  const flow = { ...TEST_FLOW, halfCloseTimeoutMs: 500 };
  const server = await startServer(t, { flow });
  await startAgent(t, server.agentPort, { flow });
  await until(async () => (await statusOf(server.healthPort, "/readyz")) === 200);
  return server;
}

async function connected(client: RawSocket, endpoint: string): Promise<RawSocket> {
  client.write(`CONNECT ${endpoint} HTTP/1.1\r\nHost: ${endpoint}\r\n\r\n`);
  await client.whenReceived(ESTABLISHED.length);
  assert.equal(client.text.slice(0, ESTABLISHED.length), ESTABLISHED);
  return client;
}

/** An endpoint that keeps what each of its connections sends. */
async function startCollector(t: TestContext): Promise<{ address: string; all: RawSocket[] }> {
  const all: RawSocket[] = [];
  const address = await startEndpoint(t, (socket) => {
    all.push(new RawSocket(socket));
    socket.on("end", () => socket.end());
  });
  return { address, all };
}

for (const [transport, open] of Object.entries(CONNECT_FRONTENDS)) {
  describe(`a CONNECT client over ${transport}`, () => {
    it("sees nothing of an endpoint that speaks first before the 200", async (t) => {
      const server = await startWithAgent(t);
      const banner = await startEndpoint(t, (socket) => socket.write("SSH-2.0-banner\r\n"));
      const hasty = await startEndpoint(t, (socket) => socket.end("SSH-2.0-banner\r\n"));
      const dials = transport === "a Unix socket" ? 1_000 : 200;
      let dialed = 0;
      const dialNext = async () => {
        while (dialed < dials) {
          const endpoint = dialed++ % 2 === 0 ? banner : hasty;
          const client = await open(t, server);
          client.write(`CONNECT ${endpoint} HTTP/1.1\r\n\r\n`);
          await client.whenSaid("banner\r\n");
          assert.equal(client.text, `${ESTABLISHED}SSH-2.0-banner\r\n`);
          client.socket.destroy();
        }
      };
      await Promise.all(Array.from({ length: 20 }, dialNext));
      await assertNothingLeft(server);
    });

    it("may send its first bytes in one segment with the request", async (t) => {
      const server = await startWithAgent(t);
      const { address, all } = await startCollector(t);
      const early = noise(1024, 1);
      const client = await open(t, server);
      client.write(Buffer.concat([Buffer.from(`CONNECT ${address} HTTP/1.1\r\n\r\n`), early]));
      await client.whenSaid(ESTABLISHED);
      await until(() => all.length === 1);
      assert.deepEqual(await all[0]?.whenReceived(1024), early);
      client.write("and more");
      await all[0]?.whenSaid("and more");
    });

    it("may send more than is kept while its dial goes on", async (t) => {
      const server = await startServer(t);
      const agent = await connectAsAgent(t, server);
      const early = noise(3 * MIB, 2);
      const client = await open(t, server);
      client.write("CONNECT endpoint:80 HTTP/1.1\r\n\r\n");
      const random = (await agent.nextPacket()).dialRequest?.random ?? "";
      // What comes first waits longest, while others are read.
      for (let at = 0; at < 5_000; at += 1_000) {
        client.write(early.subarray(at, at + 1_000));
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      client.write(early.subarray(5_000));
      const received = collect(agent, early.length);
      await new Promise((resolve) => setTimeout(resolve, 30));
      agent.send(packets.dialed(random, 1));
      assert.equal(digest(await received), digest(early));
    });

    it("may send its request byte by byte", async (t) => {
      const server = await startWithAgent(t);
      const { address } = await startCollector(t);
      const client = await open(t, server);
      for (const character of `CONNECT ${address} HTTP/1.1\r\nHost: x\r\n\r\n`) {
        client.write(character);
        await new Promise((resolve) => setImmediate(resolve));
      }
      assert.equal(await client.whenSaid("\r\n\r\n"), ESTABLISHED);
    });

    it("that sends 10 MiB and closes at once has it all delivered", async (t) => {
      const server = await startWithAgent(t);
      const { address, all } = await startCollector(t);
      const sent = noise(10 * MIB, 3);
      for (let round = 0; round < 5; round++) {
        const client = await connected(await open(t, server), address);
        client.socket.end(sent);
        await until(() => all.length === round + 1);
        await all[round]?.whenFinished();
        assert.equal(all[round]?.fate, "ended");
        assert.equal(digest(all[round]?.received ?? Buffer.alloc(0)), digest(sent));
      }
      await assertNothingLeft(server);
    });

    it("that sends 10 MiB and closes at once has it all handed to any agent", async (t) => {
      const server = await startServer(t);
      const agent = await connectAsAgent(t, server);
      const sent = noise(10 * MIB, 4);
      const client = await open(t, server);
      client.write("CONNECT endpoint:80 HTTP/1.1\r\n\r\n");
      agent.send(packets.dialed((await agent.nextPacket()).dialRequest?.random ?? "", 1));
      await client.whenSaid(ESTABLISHED);
      const received = collect(agent);
      client.socket.end(sent);
      assert.equal(digest(await received), digest(sent));
      await assertNothingLeft(server);
    });

    it("gets all 10 MiB of an endpoint that closes at once", async (t) => {
      const server = await startWithAgent(t);
      const sent = noise(10 * MIB, 5);
      const address = await startEndpoint(t, (socket) => socket.end(sent));
      for (let round = 0; round < 5; round++) {
        const client = await connected(await open(t, server), address);
        await client.whenFinished();
        assert.equal(client.fate, "ended");
        assert.equal(digest(client.received.subarray(ESTABLISHED.length)), digest(sent));
      }
      await assertNothingLeft(server);
    });

    it("that reads slowly holds the endpoint up, and gets everything in the end", async (t) => {
      const server = await startWithAgent(t);
      const sent = noise(48 * MIB, 6);
      let taken = 0;
      const address = await startEndpoint(t, (socket) => {
        sendAll(socket, sent, (bytes) => (taken += bytes));
      });
      const client = await connected(await open(t, server), address);
      client.socket.pause();
      await whenStill(() => taken);
      assertPaced(taken);
      client.socket.resume();
      await client.whenFinished();
      assert.equal(digest(client.received.subarray(ESTABLISHED.length)), digest(sent));
      await assertNothingLeft(server);
    });

    it("is held up by an endpoint that reads slowly, and loses nothing", async (t) => {
      const server = await startWithAgent(t);
      let endpoint: RawSocket | undefined;
      const address = await startEndpoint(t, (socket) => {
        endpoint = new RawSocket(socket);
        socket.pause();
        socket.on("end", () => socket.end());
      });
      const sent = noise(48 * MIB, 7);
      const client = await connected(await open(t, server), address);
      let taken = 0;
      sendAll(client.socket, sent, (bytes) => (taken += bytes));
      await whenStill(() => taken);
      assertPaced(taken);
      endpoint?.socket.resume();
      await endpoint?.whenFinished();
      assert.equal(digest(endpoint?.received ?? Buffer.alloc(0)), digest(sent));
      await assertNothingLeft(server);
    });

    it("that reads nothing and leaves lets the others of its tunnel go on", async (t) => {
      const server = await startServer(t);
      const agent = await connectAsAgent(t, server);
      const dial = async (id: number) => {
        const client = await open(t, server);
        client.write("CONNECT endpoint:80 HTTP/1.1\r\n\r\n");
        agent.send(packets.dialed((await agent.nextPacket()).dialRequest?.random ?? "", id));
        await client.whenSaid(ESTABLISHED);
        return client;
      };
      const [stalled, other] = [await dial(1), await dial(2)];
      stalled.socket.pause();
      await fillWindow(agent, 1);
      agent.send(packets.data(2, "behind it"));
      stalled.socket.destroy();
      await other.whenSaid("behind it");
      assert.equal((await whatIsHeld(server.healthPort))["fullQueues"], 0);
    });

    it("that resets its connection has it closed at the agent", async (t) => {
      const server = await startServer(t);
      const agent = await connectAsAgent(t, server);
      const client = await open(t, server);
      client.write("CONNECT endpoint:80 HTTP/1.1\r\n\r\n");
      agent.send(packets.dialed((await agent.nextPacket()).dialRequest?.random ?? "", 1));
      await client.whenSaid(ESTABLISHED);
      client.write("last");
      assert.equal(await agent.next(), 'DATA 1 "last"');
      client.socket.destroy();
      assert.equal(await agent.next(), "CLOSE_REQ 1");
      await assertNothingLeft(server);
    });
  });
}

describe("what ends too early", () => {
  async function setup(t: TestContext) {
    const server = await startServer(t);
    const agent = await connectAsAgent(t, server);
    const client = await connectRawTls(t, server.connectPort);
    client.write("CONNECT endpoint:80 HTTP/1.1\r\n\r\n");
    agent.send(packets.dialed((await agent.nextPacket()).dialRequest?.random ?? "", 1));
    await client.whenSaid(ESTABLISHED);
    return { server, agent, client };
  }

  it("resets a CONNECT client behind the data when the endpoint has failed", async (t) => {
    const { server, agent, client } = await setup(t);
    agent.send(packets.data(1, "half of it"), packets.closed(1, "connection reset by peer"));
    assert.equal((await client.whenFinished()).text, `${ESTABLISHED}half of it`);
    assert.equal(client.fate, "reset");
    await assertNothingLeft(server);
  });

  it("resets a CONNECT client behind the data when the agent is lost", async (t) => {
    const { server, agent, client } = await setup(t);
    agent.send(packets.data(1, "half of it"));
    await client.whenSaid("half of it");
    agent.cancel();
    assert.equal((await client.whenFinished()).text, `${ESTABLISHED}half of it`);
    assert.equal(client.fate, "reset");
    await assertNothingLeft(server, 0);
  });

  it("ends a CONNECT client's connection in an orderly way when the endpoint did", async (t) => {
    const { agent, client } = await setup(t);
    agent.send(packets.data(1, "all of it"), packets.closed(1));
    assert.equal((await client.whenFinished()).text, `${ESTABLISHED}all of it`);
    assert.equal(client.fate, "ended");
  });
});

describe("a gRPC frontend", () => {
  async function dialCollector(t: TestContext) {
    const server = await startWithAgent(t);
    const collector = await startCollector(t);
    const frontend = openProxy(t, server).send(packets.dial(1, collector.address));
    assert.equal(await frontend.next(), "DIAL_RSP 1 id 1");
    await until(() => collector.all.length === 1);
    const [endpoint] = collector.all;
    assert.ok(endpoint);
    return { server, frontend, endpoint };
  }

  const payload = 32 * 1024;
  async function sendData(frontend: PacketStream, sent: Buffer): Promise<void> {
    for (let at = 0; at < sent.length; at += payload) {
      const packet = packets.data(1, sent.subarray(at, at + payload));
      if (!frontend.sendBytes(encodePacket(packet))) await frontend.drained();
    }
  }

  for (const [how, finish] of Object.entries({
    "asks to close": (frontend: PacketStream) => frontend.send(packets.close(1)),
    "finishes its stream": (frontend: PacketStream) => {
      frontend.end();
    },
  })) {
    it(`that sends 10 MiB and ${how} at once has it all delivered`, async (t) => {
      const { server, frontend, endpoint } = await dialCollector(t);
      const sent = noise(10 * MIB, 8);
      await sendData(frontend, sent);
      finish(frontend);
      await endpoint.whenFinished();
      assert.equal(endpoint.fate, "ended");
      assert.equal(digest(endpoint.received), digest(sent));
      frontend.end();
      await assertNothingLeft(server);
    });
  }

  it("may send a message of 4 MiB, which an agent gets in pieces", async (t) => {
    const { frontend, endpoint } = await dialCollector(t);
    const sent = noise(4_194_288, 9);
    frontend.send(packets.data(1, sent));
    assert.equal(digest(await endpoint.whenReceived(sent.length)), digest(sent));
  });

  it("that reads slowly holds the endpoint up, and gets everything in the end", async (t) => {
    const server = await startWithAgent(t);
    const sent = noise(48 * MIB, 10);
    let taken = 0;
    const address = await startEndpoint(t, (socket) => {
      sendAll(socket, sent, (bytes) => (taken += bytes));
    });
    const frontend = openProxy(t, server);
    frontend.pause();
    frontend.send(packets.dial(1, address));
    await until(() => taken > 0);
    await whenStill(() => taken);
    assertPaced(taken);

    const hash = createHash("sha256");
    const closed = new Promise<void>((resolve) => {
      frontend.serve(({ type, data }) => {
        if (type === "DATA") hash.update(data?.data ?? "");
        if (type === "CLOSE_RSP") resolve();
      });
    });
    frontend.resume();
    await closed;
    assert.equal(hash.digest("hex"), digest(sent));
    frontend.end();
    await assertNothingLeft(server);
  });

  it("is held up by an agent that does not read, and loses nothing", async (t) => {
    const server = await startServer(t);
    const agent = await connectAsAgent(t, server);
    const frontend = openProxy(t, server).send(packets.dial(1));
    await agent.next();
    agent.send(packets.dialed(1, 1));
    await frontend.next();
    agent.pause();
    const sent = noise(16 * MIB, 11);
    let handedOver = 0;
    const sending = (async () => {
      for (let at = 0; at < sent.length; at += payload) {
        const packet = packets.data(1, sent.subarray(at, at + payload));
        if (!frontend.sendBytes(encodePacket(packet))) await frontend.drained();
        handedOver = at;
      }
    })();
    await whenStill(() => handedOver);
    assert.ok(handedOver < 8 * MIB, `the frontend got rid of ${handedOver} bytes`);
    const received = collect(agent, sent.length);
    agent.resume();
    await sending;
    assert.equal(digest(await received), digest(sent));
  });
});

/** Send and finish, telling how many bytes the kernel took each time. */
function sendAll(socket: Socket, bytes: Buffer, onTaken: (bytes: number) => void, at = 0): void {
  const piece = bytes.subarray(at, at + 64 * 1024);
  if (piece.length === 0) {
    socket.end();
    return;
  }
  socket.write(piece, (error) => {
    onTaken(piece.length);
    if (error === undefined || error === null) sendAll(socket, bytes, onTaken, at + piece.length);
  });
}

/** Something was taken, but not more than the windows and queues of LIMITS.md and the kernel hold. */
function assertPaced(taken: number): void {
  assert.ok(taken > MIB && taken < 40 * MIB, `${taken} bytes were taken`);
}

/** Everything an agent is sent for its connection 1: so many bytes, or until it is to close. */
function collect(agent: PacketStream, bytes = Number.POSITIVE_INFINITY): Promise<Buffer> {
  return new Promise((resolve) => {
    const pieces: Buffer[] = [];
    let received = 0;
    agent.serve(({ type, data }) => {
      if (type === "DATA" && data?.data !== undefined) {
        pieces.push(data.data);
        received += data.data.length;
      }
      if (type === "CLOSE_REQ" || received >= bytes) resolve(Buffer.concat(pieces));
    });
  });
}

/** Send for a connection until the server takes no more. */
async function fillWindow(agent: PacketStream, connectionId: number): Promise<void> {
  const packet = encodePacket(packets.data(connectionId, Buffer.alloc(256 * 1024)));
  let sent = 0;
  let blocked = false;
  void (async () => {
    // More than the server's window, its queues and the kernel's buffers.
    while (sent++ < 160) {
      blocked = !agent.sendBytes(packet);
      if (blocked) await agent.drained();
    }
  })();
  await whenStill(() => sent);
  assert.ok(blocked, "nothing held the agent up");
}

/** Resolves when a number has stopped growing. */
async function whenStill(read: () => number): Promise<void> {
  let before = -1;
  while (read() !== before) {
    before = read();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
