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
import type { PacketStream } from "../support/packet-stream.ts";
import { connectRaw } from "../support/raw-socket.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const STREAM_BYTES = 40 * MIB;

const FRONTENDS = ["grpcUnix", "connectUnix", "grpcTls", "connectTls"] as const;

/**
 * What two kernel buffers take between a sender and a reader that has stopped: on TCP up to 4 MiB at
 * the sender's, and what the reader's has grown to before.
 */
const KERNEL_BYTES = { tcp: 6 * MIB, unix: 512 * KIB };

/** The window of a gRPC frontend's stream, either way: no more than that is in kernel buffers. */
const GRPC_STREAM_BYTES = 1 * MIB;

/**
 * A connection's window in the tunnel. The first one is of 64 KiB; while kernel buffers fill, it may
 * grow a few times. What is above all bounds here is that it grows to its limit, of 16 MiB.
 */
const WINDOW_BYTES = 2 * MIB;

/** What waits in front of the tunnel for credit, with one read more, and at the client's for its turn. */
const QUEUED_BYTES = 128 * KIB + 256 * KIB;

/** The most that may be taken of a sender whose reader has stopped. */
function mostTaken(frontend: (typeof FRONTENDS)[number]): number {
  const toFrontend = {
    grpcUnix: GRPC_STREAM_BYTES,
    connectUnix: KERNEL_BYTES.unix,
    grpcTls: GRPC_STREAM_BYTES,
    connectTls: KERNEL_BYTES.tcp,
  };
  return toFrontend[frontend] + QUEUED_BYTES + WINDOW_BYTES + KERNEL_BYTES.tcp;
}

/** For what takes a tenth of a second where nobody is in the way. */
const OTHERS_MS = 5_000;

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

/** @throws if `work` takes longer than {@link OTHERS_MS}. */
async function inTime(what: string, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`${what} took longer than ${OTHERS_MS} ms`));
    }, OTHERS_MS);
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

describe("one reader that has stopped", () => {
  for (const frontend of FRONTENDS) {
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
        const mostBytes = mostTaken(frontend);
        assert.ok(sentBytes <= mostBytes, `${sentBytes} bytes were taken, ${mostBytes} may be`);

        const others = Array.from({ length: 20 }, async () => {
          const stream = await client.dial(echoes);
          await echo(stream, 20);
          stream.end();
          await once(stream, "close");
        });
        await inTime("the dials and echoes of others", Promise.all(others));

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

/** Have `agent` take every dial, with ids from 1, send back what comes, and close what it is asked to. */
function serveEchoes(agent: PacketStream): { readonly closedIds: readonly string[] } {
  const closedIds: string[] = [];
  let lastId = 0;
  agent.serve(({ type, dialRequest, data, closeRequest }) => {
    if (type === "DIAL_REQ") agent.send(packets.dialed(dialRequest?.random ?? "", ++lastId));
    else if (type === "DATA") agent.send(packets.data(data?.connectID ?? "", data?.data ?? ""));
    if (type !== "CLOSE_REQ") return;
    const id = closeRequest?.connectID ?? "";
    closedIds.push(id);
    agent.send(packets.closed(id));
  });
  return { closedIds };
}

describe("an agent without flow control", () => {
  for (const frontend of FRONTENDS) {
    it(`has only the connection ended whose reader has stopped, as a slow consumer, on ${frontend}`, async (t) => {
      const flow = { ...TEST_FLOW, limits: { ...TEST_FLOW.limits, stallTimeoutMs: 300 } };
      const server = await startServer(t, { flow });
      const agent = await connectAsAgent(t, server);
      const { closedIds } = serveEchoes(agent);
      const client = clientsOf(server)[frontend];
      t.after(() => {
        client.close();
      });
      const stalled = await client.dial("endpoint:80");
      stalled.on("error", () => undefined);
      stalled.pause();
      const others = await Promise.all(
        Array.from({ length: 20 }, () => client.dial("endpoint:80")),
      );
      // More than its own window, kernel buffers and the queue take.
      for (let sent = 0; sent < 12 * MIB; sent += PIECE.length) agent.send(packets.data(1, PIECE));
      const isStalledClosed = () => closedIds.includes("1");
      const whileStalled = others.map(async (stream) => {
        do await echo(stream, 1);
        while (!isStalledClosed());
      });
      const dialsMeanwhile = async () => {
        do {
          const stream = await client.dial("endpoint:80");
          await echo(stream, 1);
          stream.end();
          await once(stream, "close");
        } while (!isStalledClosed());
      };
      await inTime("echoes and dials of others", Promise.all([...whileStalled, dialsMeanwhile()]));
      const afterwards = others.map(async (stream) => {
        await echo(stream, 2);
        stream.end();
        await once(stream, "close");
      });
      await inTime("echoes afterwards", Promise.all(afterwards));
      const slowOnes = /reachback_server_connections_closed_total\{reason="slow_consumer"\} 1\b/;
      assert.match(await scrape(server.healthPort), slowOnes);
    });
  }

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
