import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { describe, it } from "node:test";
import { ManualClock, SeededRandom } from "@reachback/common/testing";
import { SocketEnd } from "../../src/net/socket-end.ts";
import { writeTogether } from "../../src/net/write-together.ts";
import { PIECE_BYTES } from "../../src/piece-bytes.ts";
import { recycledMemory } from "../../src/recycled-memory.ts";
import { MemorySocket } from "../http2/memory-socket.ts";
import { eventually, socketPair } from "./socket-pair.ts";
import { tlsPair } from "./tls-pair.ts";

const KIB = 1024;

describe("writeTogether()", () => {
  for (const [kind, makePair] of [
    ["TLS", tlsPair],
    ["TCP", socketPair],
  ] as const) {
    it(`delivers every byte in order over ${kind}, whatever waits there`, async (t) => {
      const { near, far } = await makePair(t);
      const random = new SeededRandom(1);
      const below = (limit: number) => Math.floor(random.fraction() * limit);
      const sent = createHash("sha256");
      const received = createHash("sha256");
      let sentBytes = 0;
      let receivedBytes = 0;
      let takenCount = 0;
      let waitingCount = 0;
      far.on("data", (piece: Buffer) => {
        received.update(piece);
        receivedBytes += piece.length;
      });
      const all = once(far, "end");
      const rounds = 200;
      for (let round = 0; round < rounds; round++) {
        const buffers = Array.from({ length: 1 + below(6) }, () => {
          const buffer = Buffer.alloc(below(2) === 0 ? below(60) : below(100 * KIB), round);
          return below(2) === 0 ? recycledMemory.keep(buffer) : buffer;
        });
        for (const buffer of buffers) {
          sent.update(buffer);
          sentBytes += buffer.length;
        }
        const written = () => {
          takenCount++;
          waitingCount--;
        };
        if (writeTogether(near, buffers, written) === "taken") takenCount++;
        else waitingCount++;
        // Now and then it has all left, so that its memory is used again; else it waits in the socket.
        if (below(3) === 0) await eventually(() => waitingCount === 0);
      }
      near.end();
      await all;
      assert.equal(receivedBytes, sentBytes);
      assert.equal(received.digest("hex"), sent.digest("hex"));
      assert.equal(takenCount, rounds);
    });
  }

  it("joins small buffers, leaves large ones alone, and writes them all at once", () => {
    const socket = new MemorySocket();
    const large = Buffer.alloc(8 * KIB, "b");
    writeTogether(socket.asSocket, [Buffer.from("a"), Buffer.from("a"), large, Buffer.from("c")]);
    assert.equal(socket.writes.length, 1);
    assert.deepEqual(
      socket.writes[0]?.map((buffer) => buffer.length),
      [2, large.length, 1],
    );
    assert.equal(socket.writes[0][1], large);
  });

  it("writes neighbours in memory as one, without copying them", () => {
    const socket = new MemorySocket();
    const memory = Buffer.alloc(40 * KIB);
    const piece = (start: number, end: number) => memory.subarray(start * KIB, end * KIB);
    writeTogether(socket.asSocket, [piece(0, 8), piece(8, 24), piece(30, 35), piece(24, 30)]);
    const [written] = socket.writes;
    assert.deepEqual(written, [piece(0, 24), piece(30, 35), piece(24, 30)]);
    for (const buffer of written) assert.equal(buffer.buffer, memory.buffer);
  });

  it("releases recycled memory once it has left, and not before", () => {
    const socket = new MemorySocket();
    socket.stall();
    const first = recycledMemory.keep(Buffer.alloc(8 * KIB, "a"));
    writeTogether(socket.asSocket, [first]);
    const second = recycledMemory.keep(Buffer.alloc(8 * KIB, "b"));
    assert.equal(second.byteOffset - first.byteOffset, 8 * KIB);
    writeTogether(socket.asSocket, [second]);
    socket.stall(false);
    return new Promise<void>((resolve) => {
      setImmediate(() => {
        const third = recycledMemory.keep(Buffer.alloc(8 * KIB, "c"));
        assert.equal(third.byteOffset, first.byteOffset);
        recycledMemory.release(third);
        resolve();
      });
    });
  });

  it("writes nothing where there is nothing", () => {
    const socket = new MemorySocket();
    writeTogether(socket.asSocket, []);
    assert.deepEqual(socket.writes, []);
  });
});

describe("what a SocketEnd makes one write of", () => {
  function memoryEnd() {
    const socket = new MemorySocket();
    let takenBytes = 0;
    const end = new SocketEnd(socket.asSocket, { closeStallMs: 1_000 }, new ManualClock(), {
      data: () => undefined,
      ended: () => undefined,
      taken: (bytes) => {
        takenBytes += bytes;
      },
      closed: () => undefined,
    });
    const sizes = () => socket.writes.map((buffers) => Buffer.concat(buffers).length);
    return { end, sizes, takenBytes: () => takenBytes };
  }
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  it("is what large pieces come in one turn of the event loop", async () => {
    const { end, sizes, takenBytes } = memoryEnd();
    end.write(Buffer.alloc(16 * KIB));
    end.write(Buffer.alloc(16 * KIB));
    assert.deepEqual(sizes(), []);
    await turn();
    assert.deepEqual(sizes(), [32 * KIB]);
    assert.equal(takenBytes(), 32 * KIB);
  });

  it("does not wait for the turn's end once there is enough", () => {
    const { end, sizes } = memoryEnd();
    for (let piece = 0; piece < 4; piece++) end.write(Buffer.alloc(PIECE_BYTES / 2));
    assert.deepEqual(sizes(), [2 * PIECE_BYTES]);
  });

  it("does not wait with a small piece, nor with what is before it", () => {
    const { end, sizes } = memoryEnd();
    end.write(Buffer.alloc(64));
    assert.deepEqual(sizes(), [64]);
    const other = memoryEnd();
    other.end.write(Buffer.alloc(16 * KIB));
    other.end.write(Buffer.alloc(64));
    assert.deepEqual(other.sizes(), [16 * KIB + 64]);
  });

  it("leaves in front of an end that comes in the same turn", async () => {
    const { end, sizes } = memoryEnd();
    end.write(Buffer.alloc(16 * KIB));
    end.finish();
    await turn();
    assert.deepEqual(sizes(), [16 * KIB]);
  });

  it("is dropped by a reset in the same turn", async () => {
    const { end, sizes } = memoryEnd();
    end.write(Buffer.alloc(16 * KIB));
    end.reset();
    await turn();
    assert.deepEqual(sizes(), []);
  });
});
