import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { Socket } from "node:net";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { ManualClock, SeededRandom } from "@reachback/common/testing";
import { systemClock } from "../../src/clock.ts";
import { readBorrowed } from "../../src/net/borrowed-read.ts";
import { recycledMemory } from "../../src/recycled-memory.ts";
import { MemorySocket } from "../http2/memory-socket.ts";
import { eventually, socketPair } from "./socket-pair.ts";
import { tlsPair } from "./tls-pair.ts";

const KIB = 1024;

async function unixPair(t: TestContext): Promise<{ near: Socket; far: Socket }> {
  const folder = await mkdtemp(join(tmpdir(), "reachback-read-"));
  const server = createServer({ allowHalfOpen: true });
  server.listen(join(folder, "socket"));
  await once(server, "listening");
  const near = connect({ path: join(folder, "socket"), allowHalfOpen: true });
  const [far] = (await once(server, "connection")) as [Socket];
  t.after(async () => {
    near.destroy();
    far.destroy();
    server.close();
    await rm(folder, { recursive: true });
  });
  return { near, far };
}

const PAIRS = { TCP: socketPair, Unix: unixPair, TLS: tlsPair } as const;

for (const [kind, makePair] of Object.entries(PAIRS)) {
  describe(`readBorrowed() of a ${kind} socket`, () => {
    for (const side of ["connected", "accepted"] as const) {
      it(`reads what is ${side} into the same memory again and again`, async (t) => {
        const { near, far } = await makePair(t);
        const [reader, writer] = side === "connected" ? [near, far] : [far, near];
        const memory = new Set<ArrayBufferLike>();
        let text = "";
        readBorrowed(reader, systemClock, (piece) => {
          memory.add(piece.buffer);
          text += piece.toString();
        });
        for (const word of ["one", "two", "three"]) {
          const before = text;
          writer.write(word);
          await eventually(() => text === before + word);
        }
        assert.equal(memory.size, 1);
      });
    }

    it("delivers every byte in order, before the end", async (t) => {
      const { near, far } = await makePair(t);
      const random = new SeededRandom(3);
      const below = (limit: number) => Math.floor(random.fraction() * limit);
      const sent = createHash("sha256");
      const received = createHash("sha256");
      readBorrowed(far, systemClock, (piece) => {
        received.update(piece);
        // As whoever reads next will do.
        piece.fill(0xee);
      });
      const ended = once(far, "end");
      for (let count = 0; count < 300; count++) {
        const bytes =
          below(2) === 0 ? below(100) : below(3) * 16 * KIB + below(2) * below(40 * KIB);
        const piece = Buffer.alloc(bytes, count);
        sent.update(piece);
        if (!near.write(piece)) await once(near, "drain");
      }
      near.end();
      await ended;
      assert.equal(received.digest("hex"), sent.digest("hex"));
    });

    it("reads what is kept into memory that stays as it is until it is released", async (t) => {
      const random = new SeededRandom(4);
      const below = (limit: number) => Math.floor(random.fraction() * limit);
      let uncopiedBytes = 0;
      const transfer = async () => {
        const { near, far } = await makePair(t);
        const sent = createHash("sha256");
        const received = createHash("sha256");
        const held: Buffer[] = [];
        const releaseFirst = () => {
          const piece = held.shift()!;
          received.update(piece);
          piece.fill(0xee);
          recycledMemory.release(piece);
        };
        readBorrowed(far, systemClock, (chunk) => {
          for (let at = 0; at < chunk.length;) {
            const piece = chunk.subarray(at, at + 1 + below(64 * KIB));
            at += piece.length;
            const kept = recycledMemory.keep(piece);
            if (kept === piece) uncopiedBytes += piece.length;
            held.push(kept);
          }
          while (held.length > 0 && below(10) > 0) releaseFirst();
        });
        const ended = once(far, "end");
        for (let count = 0; count < 60; count++) {
          const piece = Buffer.alloc(below(4) === 0 ? below(2 * KIB) : below(400 * KIB), count);
          sent.update(piece);
          if (!near.write(piece)) await once(near, "drain");
        }
        near.end();
        await ended;
        while (held.length > 0) releaseFirst();
        assert.equal(received.digest("hex"), sent.digest("hex"));
        near.destroy();
        far.destroy();
        await once(far, "close");
      };
      // More than there are blocks for readers.
      await Promise.all(Array.from({ length: 24 }, transfer));
      assert.ok(uncopiedBytes > 20 * 1024 * KIB, `${uncopiedBytes} bytes were not copied`);

      // All blocks have been given back.
      const blocks = Array.from({ length: 13 }, () => recycledMemory.lend());
      for (const block of blocks) if (block !== undefined) recycledMemory.takeBack(block);
      assert.equal(blocks.filter((block) => block !== undefined).length, 12);
    });

    it("gives up its block when it brings little", async (t) => {
      const { near, far } = await makePair(t);
      const memory = new Set<ArrayBufferLike>();
      let bytes = 0;
      readBorrowed(far, systemClock, (piece) => {
        memory.add(piece.buffer);
        bytes += piece.length;
      });
      near.write("a");
      await eventually(() => bytes === 1);
      const [shared] = memory;
      near.write(Buffer.alloc(KIB * KIB));
      await eventually(() => bytes === 1 + KIB * KIB);
      assert.ok(memory.size > 1);
      // The first one may still come into the block.
      for (const total of [2, 3]) {
        memory.clear();
        near.write("a");
        await eventually(() => bytes === total + KIB * KIB);
      }
      assert.deepEqual([...memory], [shared]);
    });

    it("loses its block to one that needs it when it has read nothing for five seconds", async (t) => {
      const clock = new ManualClock();
      const burst = 512 * KIB;
      const open = async () => {
        const { near, far } = await makePair(t);
        const reader = { near, far, bytes: 0, memory: new Set<ArrayBufferLike>() };
        readBorrowed(far, clock, (piece) => {
          assert.equal(piece[0], piece.at(-1));
          reader.memory.add(piece.buffer);
          reader.bytes += piece.length;
        });
        return reader;
      };
      const send = async (reader: Awaited<ReturnType<typeof open>>, fill: number) => {
        const before = reader.bytes;
        reader.near.write(Buffer.alloc(burst, fill));
        await eventually(() => reader.bytes === before + burst);
      };
      const readers = await Promise.all(Array.from({ length: 13 }, open));
      for (const reader of readers) await send(reader, 1);
      const last = readers.at(-1)!;
      const hasHadBlock = () => last.memory.size > 1;
      assert.equal(hasHadBlock(), false, "there was a block too many");
      clock.advance(4_999);
      await send(last, 2);
      assert.equal(hasHadBlock(), false, "somebody lost a block too early");
      clock.advance(1);
      await send(last, 3);
      assert.equal(hasHadBlock(), true, "nobody lost a block");
      // Those that did read on as before, and may get one again.
      for (const reader of readers) await send(reader, 4);
    });

    it("is destroyed when whoever it hands out to throws, and gives its block back", async (t) => {
      const { near, far } = await makePair(t);
      let bytes = 0;
      readBorrowed(far, systemClock, (piece) => {
        bytes += piece.length;
        if (bytes > 256 * KIB) throw new Error("thrown by the test");
      });
      const closed = once(far, "close");
      near.on("error", () => undefined);
      const thrown = new Promise<unknown>((resolve) => {
        const listeners = process.rawListeners("uncaughtException");
        process.removeAllListeners("uncaughtException");
        process.once("uncaughtException", (error) => {
          for (const listener of listeners) {
            process.on("uncaughtException", listener as NodeJS.UncaughtExceptionListener);
          }
          resolve(error);
        });
      });
      near.write(Buffer.alloc(512 * KIB));
      assert.match(String(await thrown), /thrown by the test/);
      await closed;
      const blocks = Array.from({ length: 13 }, () => recycledMemory.lend());
      for (const block of blocks) if (block !== undefined) recycledMemory.takeBack(block);
      assert.equal(blocks.filter((block) => block !== undefined).length, 12);
    });

    it("stops where it is paused, and goes on from there", async (t) => {
      const { near, far } = await makePair(t);
      let bytes = 0;
      readBorrowed(far, systemClock, (piece) => {
        bytes += piece.length;
      });
      near.write("a");
      await eventually(() => bytes === 1);
      far.pause();
      near.write(Buffer.alloc(20_000));
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
      assert.equal(bytes, 1);
      far.resume();
      await eventually(() => bytes === 20_001);
    });

    it("begins with what was read before", async (t) => {
      const { near, far } = await makePair(t);
      near.write("one two");
      await once(far, "readable");
      far.unshift(far.read() as Buffer);
      let text = "";
      readBorrowed(far, systemClock, (piece) => {
        text += piece.toString();
      });
      await eventually(() => text === "one two");
      near.write(" three");
      await eventually(() => text === "one two three");
    });
  });
}

describe("readBorrowed()", () => {
  it("hands out together what TLS delivers in full records", async (t) => {
    const { near, far } = await tlsPair(t);
    const sizes: number[] = [];
    readBorrowed(far, systemClock, (piece) => sizes.push(piece.length));
    const sum = () => sizes.reduce((total, size) => total + size, 0);
    near.write(Buffer.alloc(40 * KIB));
    await eventually(() => sum() === 40 * KIB);
    // A record that is cut by the reads of the socket waits for the next turn at most.
    assert.equal(sizes.length <= 2, true, String(sizes));
    // With nothing behind a full record, the end of the turn is what hands it out.
    near.write(Buffer.alloc(16 * KIB));
    await eventually(() => sum() === 56 * KIB);
  });

  it("lets others have their turn after each 512 KiB of TLS", async (t) => {
    const { near, far } = await tlsPair(t);
    let bytes = 0;
    readBorrowed(far, systemClock, (piece) => (bytes += piece.length));
    far.pause();
    const totalBytes = 4096 * KIB;
    near.write(Buffer.alloc(totalBytes));
    // As much as the system takes waits to be read.
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    far.resume();
    let mostBytes = 0;
    while (bytes < totalBytes) {
      const before = far.bytesRead;
      await new Promise((resolve) => setImmediate(resolve));
      mostBytes = Math.max(mostBytes, far.bytesRead - before);
    }
    assert.ok(mostBytes >= 512 * KIB, `never more than ${mostBytes}`);
    // It is one read of the socket that exceeds it.
    assert.ok(mostBytes < (512 + 80) * KIB, `${mostBytes}`);
  });

  for (const where of ["as it comes", "before others have had their turn", "after that"]) {
    it(`stays paused and reads on where a pause of TLS falls, ${where}`, async (t) => {
      const { near, far } = await tlsPair(t);
      const totalBytes = 4096 * KIB;
      let bytes = 0;
      let pausedAtBytes: number | undefined;
      readBorrowed(far, systemClock, (piece) => {
        bytes += piece.length;
        if (pausedAtBytes !== undefined || bytes < 512 * KIB) return;
        pausedAtBytes = bytes;
        if (where === "as it comes") far.pause();
        else if (where === "after that") setImmediate(() => far.pause());
        else process.nextTick(() => far.pause());
      });
      near.write(Buffer.alloc(totalBytes));
      await eventually(() => far.isPaused());
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
      const pausedBytes = bytes;
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
      assert.equal(bytes, pausedBytes);
      assert.ok(bytes < totalBytes);
      far.resume();
      await eventually(() => bytes === totalBytes);
    });
  }

  it("hands out what it has gathered before it says that the connection was reset", async (t) => {
    const { near, far } = await tlsPair(t);
    const events: string[] = [];
    readBorrowed(far, systemClock, (piece) => events.push(`${piece.length}`));
    far.on("error", () => events.push("error"));
    far.on("close", () => events.push("close"));
    const before = far.bytesRead;
    near.write(Buffer.alloc(16 * KIB));
    // Seen ahead of the end of the turn in which it came.
    await eventually(() => far.bytesRead === before + 16 * KIB);
    assert.equal(events.length, 0);
    far.destroy(new Error("lost"));
    await eventually(() => events.includes("close"));
    assert.deepEqual(events, [`${16 * KIB}`, "error", "close"]);
  });

  it("hands out what came before a reset", async (t) => {
    const { near, far, nearTcp } = await tlsPair(t);
    const events: string[] = [];
    let bytes = 0;
    readBorrowed(far, systemClock, (piece) => {
      bytes += piece.length;
    });
    far.on("error", (error: NodeJS.ErrnoException) => events.push(error.code ?? error.message));
    far.on("close", () => events.push("close"));
    near.write(Buffer.alloc(40 * KIB));
    await eventually(() => bytes === 40 * KIB);
    near.on("error", () => undefined);
    nearTcp.resetAndDestroy();
    await eventually(() => events.includes("close"));
    assert.deepEqual(events, ["ECONNRESET", "close"]);
  });

  it("reads by events where there is no handle to set up", () => {
    const socket = new MemorySocket();
    const seen: string[] = [];
    readBorrowed(socket.asSocket, systemClock, (piece) => seen.push(piece.toString()));
    socket.receive(Buffer.from("one"), Buffer.from("two"));
    assert.deepEqual(seen, ["one", "two"]);
  });
});
