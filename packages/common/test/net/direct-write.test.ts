import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mkdtemp, rm } from "node:fs/promises";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { SeededRandom } from "@reachback/common/testing";
import { writeDirectly } from "../../src/net/direct-write.ts";
import { MemorySocket } from "../http2/memory-socket.ts";
import { eventually, socketPair } from "./socket-pair.ts";
import type { SocketPair } from "./socket-pair.ts";
import { tlsPair } from "./tls-pair.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

async function unixPair(t: TestContext): Promise<SocketPair> {
  const folder = await mkdtemp(join(tmpdir(), "direct-write-"));
  t.after(() => rm(folder, { recursive: true }));
  const path = join(folder, "socket");
  const server = createServer({ allowHalfOpen: true });
  t.after(() => server.close());
  server.listen(path);
  await once(server, "listening");
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const near = connect({ path, allowHalfOpen: true });
  const [[far]] = await Promise.all([accepted, once(near, "connect")]);
  t.after(() => {
    near.destroy();
    far.destroy();
  });
  return { near, far };
}

/** What is never called: nothing has been written. */
function untold(): void {
  assert.fail("nothing was to be written");
}

/** Write until there is no room. */
function fill(socket: Socket, written: (error?: Error | null) => void = () => undefined): void {
  const buffer = Buffer.alloc(MIB);
  for (let count = 0; count < 100; count++) {
    if (writeDirectly(socket, [buffer], written) === "waits") return;
  }
  throw new Error("the system takes everything");
}

for (const [kind, makePair] of [
  ["TCP", socketPair],
  ["a Unix socket", unixPair],
] as const) {
  describe(`writing directly to ${kind}`, () => {
    it("keeps the order, also with what the stream writes and ends", async (t) => {
      const { near, far } = await makePair(t);
      const received: Buffer[] = [];
      far.on("data", (piece: Buffer) => received.push(piece));
      const random = new SeededRandom(3);
      const below = (limit: number) => Math.floor(random.fraction() * limit);
      let sent = "";
      let takenCount = 0;
      let waitingCount = 0;
      let writtenCount = 0;
      let streamCount = 0;
      for (let round = 0; round < 600; round++) {
        const buffers = Array.from({ length: 1 + below(4) }, (_, index) =>
          Buffer.from(`${round}.${index} `.repeat(1 + below(below(4) === 0 ? 30_000 : 300))),
        );
        sent += buffers.join("");
        const isStreams = below(8) === 0;
        const outcome = isStreams ? undefined : writeDirectly(near, buffers, () => writtenCount++);
        if (outcome === "taken") takenCount++;
        else if (outcome === "waits") waitingCount++;
        else for (const buffer of buffers) near.write(buffer);
        if (outcome === undefined) streamCount++;
        if (below(8) === 0) far.pause();
        if (below(4) === 0) await new Promise((resolve) => setImmediate(resolve));
        if (below(20) === 0) {
          far.resume();
          await eventually(() => near.writableLength === 0 && writtenCount === waitingCount);
        }
      }
      near.end();
      far.resume();
      await once(far, "end");
      const text = Buffer.concat(received).toString();
      assert.equal(text === sent, true);
      assert.equal(writtenCount, waitingCount);
      for (const count of [takenCount, waitingCount, streamCount]) assert.ok(count > 5);
      far.end();
    });

    it("calls back when what had to wait has been taken, and not before", async (t) => {
      const { near, far } = await makePair(t);
      far.pause();
      const calls: (Error | null | undefined)[] = [];
      fill(near, (error) => calls.push(error));
      assert.equal(
        writeDirectly(near, [Buffer.from("more")], (error) => calls.push(error)),
        "waits",
      );
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual(calls, []);
      far.resume();
      await eventually(() => calls.length === 2);
      assert.deepEqual(calls, [undefined, undefined]);
    });

    it("tells of a write that its socket's destruction ends", async (t) => {
      const { near, far } = await makePair(t);
      far.pause();
      const calls: unknown[] = [];
      fill(near, (error) => calls.push((error as NodeJS.ErrnoException | undefined)?.code));
      near.destroy();
      await eventually(() => calls.length > 0);
      assert.deepEqual(calls, ["ECANCELED"]);
    });

    it("destroys a socket whose peer is gone, and says so later", async (t) => {
      const { near, far } = await makePair(t);
      const failed = once(near, "error") as Promise<[NodeJS.ErrnoException]>;
      far.destroy();
      const calls: (Error | null | undefined)[] = [];
      await eventually(() => {
        const countBefore = calls.length;
        writeDirectly(near, [Buffer.from("x")], (error) => calls.push(error));
        assert.equal(calls.length, countBefore);
        return near.destroyed;
      });
      const [error] = await failed;
      assert.match(error.message, /^write (EPIPE|ECONNRESET)$/);
      assert.equal(error.syscall, "write");
      assert.equal(`write ${String(error.code)}`, error.message);
      assert.ok((error.errno ?? 0) < 0);
      assert.deepEqual(calls, [error]);
    });

    it("is left to the stream while that has something waiting", async (t) => {
      const { near, far } = await makePair(t);
      far.pause();
      fill(near);
      near.write(Buffer.from("x"));
      assert.equal(writeDirectly(near, [Buffer.from("y")], untold), undefined);
    });
  });
}

describe("writing directly", () => {
  it("is not done to TLS, to what is no socket, nor before there is a connection", async (t) => {
    const { near } = await tlsPair(t);
    const connecting = connect({ port: 9, host: "127.0.0.1" });
    connecting.on("error", () => undefined);
    t.after(() => connecting.destroy());
    const closed = (await socketPair(t)).near;
    closed.destroy();
    for (const socket of [near, new MemorySocket().asSocket, connecting, closed]) {
      assert.equal(writeDirectly(socket, [Buffer.from("x")], untold), undefined);
    }
  });
});
