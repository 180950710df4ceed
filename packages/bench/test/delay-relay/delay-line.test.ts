import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { startDelayLine } from "../../src/delay-relay/delay-line.ts";

const ONE_WAY_MS = 30;

/** A client's socket, and behind the delay the socket that answers it. */
async function openPair(t: TestContext): Promise<{ near: Socket; far: Socket }> {
  const listen = async () => {
    const server = createServer({ allowHalfOpen: true, noDelay: true });
    t.after(() => server.close());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return server;
  };
  const open = (port: number) => {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    t.after(() => socket.destroy());
    return socket;
  };
  const target = await listen();
  const relay = await listen();
  relay.on("connection", (incoming: Socket) => {
    const outgoing = open((target.address() as AddressInfo).port);
    t.after(() => incoming.destroy());
    startDelayLine(incoming, outgoing, ONE_WAY_MS);
    startDelayLine(outgoing, incoming, ONE_WAY_MS);
  });
  const near = open((relay.address() as AddressInfo).port);
  const [far] = (await once(target, "connection")) as [Socket];
  t.after(() => far.destroy());
  return { near, far };
}

async function readToEnd(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  await once(socket, "end");
  return Buffer.concat(chunks);
}

describe("delay line", () => {
  it("delays each way, and no less than it was told", async (t) => {
    const { near, far } = await openPair(t);
    far.on("data", (chunk: Buffer) => far.write(chunk));
    const sentAtMs = performance.now();
    near.write("x");
    await once(near, "data");
    const tookMs = performance.now() - sentAtMs;
    assert.ok(tookMs >= 2 * ONE_WAY_MS - 1, `${tookMs} ms`);
  });

  it("delivers 8 MiB unchanged and in order, and the end behind them", async (t) => {
    const { near, far } = await openPair(t);
    const sent = randomBytes(8 * 1024 * 1024);
    near.end(sent);
    assert.ok(sent.equals(await readToEnd(far)));
  });

  it("still carries the answer after the question has ended", async (t) => {
    const { near, far } = await openPair(t);
    near.end("question");
    assert.equal(String(await readToEnd(far)), "question");
    far.end("answer");
    assert.equal(String(await readToEnd(near)), "answer");
  });

  it("resets one side when the other is reset", async (t) => {
    const { near, far } = await openPair(t);
    near.resetAndDestroy();
    const [error] = (await once(far, "error")) as [NodeJS.ErrnoException];
    assert.equal(error.code, "ECONNRESET");
  });
});
