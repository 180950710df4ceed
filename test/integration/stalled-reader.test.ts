import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import type { Duplex } from "node:stream";
import { describe, it } from "node:test";
import {
  TEST_FLOW,
  clientsOf,
  startCluster,
  startEndpoint,
  startServer,
} from "../support/cluster.ts";
import { assertNothingLeft, scrape } from "../support/gauges.ts";
import { connectAsAgent, packets } from "../support/packet-stream.ts";
import { connectRaw } from "../support/raw-socket.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const STREAM_BYTES = 40 * MIB;

/** What one write of the streaming side holds, the same each time. */
const PIECE = Buffer.alloc(256 * KIB, "stream");
const EXPECTED = createHash("sha256")
  .update(Buffer.concat(Array.from({ length: STREAM_BYTES / PIECE.length }, () => PIECE)))
  .digest("hex");

/** Send all of {@link STREAM_BYTES} and finish, at the pace that the stream allows. */
async function sendAll(stream: Duplex, onSent: (bytes: number) => void): Promise<void> {
  for (let at = 0; at < STREAM_BYTES; at += PIECE.length) {
    if (!stream.write(PIECE)) await once(stream, "drain");
    onSent(at + PIECE.length);
  }
  stream.end();
}

/** The digest of all that comes until the end. @throws if it ends otherwise. */
async function digestOf(stream: Duplex): Promise<string> {
  const hash = createHash("sha256");
  stream.on("data", (piece: Buffer) => hash.update(piece));
  stream.resume();
  await once(stream, "end");
  return hash.digest("hex");
}

/** Send a line and wait for it to come back, so often. */
async function echo(stream: Duplex, times: number): Promise<void> {
  for (let round = 0; round < times; round++) {
    const line = Buffer.from(`line ${round}\n`);
    stream.write(line);
    let received = 0;
    while (received < line.length) {
      const [piece] = (await once(stream, "data")) as [Buffer];
      received += piece.length;
    }
  }
}

describe("one reader that has stopped", () => {
  for (const frontend of ["grpcUnix", "connectUnix", "grpcTls", "connectTls"] as const) {
    for (const direction of ["down", "up"] as const) {
      it(`is not felt by others on ${frontend}, ${direction}, and gets everything in the end`, async (t) => {
        const cluster = await startCluster(t);
        const client = clientsOf(cluster)[frontend];
        const echoes = await startEndpoint(t, (socket) => socket.pipe(socket));
        let far: Duplex | undefined;
        const streaming = await startEndpoint(t, (socket) => {
          socket.pause();
          far = socket;
        });
        const near = await client.dial(streaming, { allowHalfOpen: true });
        near.pause();
        while (far === undefined) await new Promise((resolve) => setImmediate(resolve));
        const [source, reader] = direction === "down" ? [far, near] : [near, far];
        let sentBytes = 0;
        const sending = sendAll(source, (bytes) => (sentBytes = bytes));

        // Until the source is held up: nothing moves for a while.
        for (let quietTurns = 0, before = -1; quietTurns < 300; quietTurns++) {
          await new Promise((resolve) => setImmediate(resolve));
          if (sentBytes !== before) quietTurns = 0;
          before = sentBytes;
        }
        assert.ok(sentBytes < STREAM_BYTES, `all of it was taken: ${sentBytes} bytes`);

        await Promise.all(
          Array.from({ length: 20 }, async () => {
            const stream = await client.dial(echoes);
            await echo(stream, 20);
            stream.end();
            await once(stream, "close");
          }),
        );

        const digest = digestOf(reader);
        await sending;
        assert.equal(await digest, EXPECTED);
        source.resume();
        reader.end();
        await once(near, "close");
        client.close();
        await assertNothingLeft(cluster);
      });
    }
  }
});

describe("an agent without flow control", () => {
  it("has only the connection ended whose reader has stopped, as a slow consumer", async (t) => {
    const flow = { ...TEST_FLOW, limits: { ...TEST_FLOW.limits, stallTimeoutMs: 300 } };
    const server = await startServer(t, { flow });
    const agent = await connectAsAgent(t, server);
    const dial = async (id: number) => {
      const client = await connectRaw(t, server.connectPath);
      client.write(`CONNECT endpoint-${id}:80 HTTP/1.1\r\n\r\n`);
      agent.send(packets.dialed((await agent.nextPacket()).dialRequest?.random ?? "", id));
      await client.whenSaid("200 Connection Established\r\n\r\n");
      return client;
    };
    const stalled = await dial(1);
    const other = await dial(2);
    stalled.socket.pause();
    for (let sent = 0; sent < 8 * MIB; sent += PIECE.length) agent.send(packets.data(1, PIECE));
    agent.send(packets.data(2, "still here"));
    await other.whenSaid("still here");
    assert.equal(await agent.next(), "CLOSE_REQ 1");
    const metrics = await scrape(server.healthPort);
    assert.match(metrics, /reachback_server_connections_closed_total\{reason="slow_consumer"\} 1/);
    agent.send(packets.data(2, ", and goes on"));
    await other.whenSaid("goes on");
    other.write("so does the client");
    assert.equal(await agent.next(), 'DATA 2 "so does the client"');
  });

  it("may have a reader that is idle for long, if it has not too much to read", async (t) => {
    const flow = { ...TEST_FLOW, limits: { ...TEST_FLOW.limits, stallTimeoutMs: 50 } };
    const server = await startServer(t, { flow });
    const agent = await connectAsAgent(t, server);
    const client = await connectRaw(t, server.connectPath);
    client.write("CONNECT endpoint:80 HTTP/1.1\r\n\r\n");
    agent.send(packets.dialed((await agent.nextPacket()).dialRequest?.random ?? "", 1));
    await client.whenSaid("200 Connection Established\r\n\r\n");
    client.socket.pause();
    agent.send(packets.data(1, Buffer.alloc(100 * KIB, "x")));
    await new Promise((resolve) => setTimeout(resolve, 200));
    client.socket.resume();
    await client.whenReceived(100 * KIB);
    client.write("back again");
    assert.equal(await agent.next(), 'DATA 1 "back again"');
  });
});
