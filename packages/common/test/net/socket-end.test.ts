import assert from "node:assert/strict";
import { once } from "node:events";
import type { Socket } from "node:net";
import { describe, it } from "node:test";
import { ManualClock, SeededRandom } from "@reachback/common/testing";
import { systemClock } from "../../src/clock.ts";
import type { Clock } from "../../src/clock.ts";
import { SocketEnd } from "../../src/net/socket-end.ts";
import type { SocketEndLimits } from "../../src/net/socket-end.ts";
import { PIECE_BYTES } from "../../src/piece-bytes.ts";
import { eventually, pairMaker, read, socketPair } from "./socket-pair.ts";
import { tlsPair } from "./tls-pair.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const LIMITS: SocketEndLimits = { closeStallMs: 10_000 };

interface RecordedEnd {
  readonly end: SocketEnd;
  readonly events: string[];
  /** How many bytes were said to be taken. */
  readonly takenBytes: () => number;
  readonly received: () => string;
  onTaken: () => void;
  readonly whenClosed: Promise<void>;
}

function record(socket: Socket, clock: Clock = systemClock): RecordedEnd {
  const events: string[] = [];
  const pieces: Buffer[] = [];
  let takenBytes = 0;
  let resolveClosed: () => void = () => undefined;
  const whenClosed = new Promise<void>((resolve) => {
    resolveClosed = resolve;
  });
  const end = new SocketEnd(socket, LIMITS, clock, {
    data: (piece) => pieces.push(Buffer.from(piece)),
    ended: () => events.push("ended"),
    taken: (bytes) => {
      takenBytes += bytes;
      recorded.onTaken();
    },
    closed: (error) => {
      events.push(`closed ${(error as NodeJS.ErrnoException | undefined)?.code ?? "in order"}`);
      resolveClosed();
    },
  });
  const recorded: RecordedEnd = {
    end,
    events,
    takenBytes: () => takenBytes,
    received: () => Buffer.concat(pieces).toString(),
    onTaken: () => undefined,
    whenClosed,
  };
  return recorded;
}

/** Write pieces until `totalBytes` are queued in all, whatever is said about room. */
function writeAll(end: SocketEnd, totalBytes: number, pieceBytes: number): void {
  for (let at = 0; at < totalBytes; at += pieceBytes)
    end.write(Buffer.alloc(pieceBytes, at & 0xff));
}

/** Wait until the system takes no more of what is queued. */
async function systemIsFull(end: SocketEnd): Promise<number> {
  for (let quietTurns = 0, before = end.queuedBytes; quietTurns < 20; quietTurns++) {
    await new Promise((resolve) => setImmediate(resolve));
    if (end.queuedBytes < before) quietTurns = -1;
    before = end.queuedBytes;
  }
  return end.queuedBytes;
}

describe("a socket end's writing", () => {
  it("keeps the order of pieces of any size", async (t) => {
    const { near, far } = await socketPair(t);
    const { end } = record(near);
    const reading = read(far, true);
    const random = new SeededRandom(7);
    let expected = "";
    for (let count = 0; count < 400; count++) {
      const large = random.fraction() < 0.05;
      const piece = `${count}:`.repeat(1 + Math.floor(random.fraction() * (large ? 60_000 : 300)));
      expected += piece;
      end.write(Buffer.from(piece));
      if (random.fraction() < 0.2) await new Promise((resolve) => setImmediate(resolve));
    }
    end.close();
    await reading.whenEnded;
    assert.equal(reading.text() === expected, true);
    far.end();
  });

  it("tells what the system has taken, all of it in the end", async (t) => {
    const { near, far } = await socketPair(t);
    const { end, takenBytes } = record(near);
    far.pause();
    writeAll(end, 20 * MIB, 64 * KIB);
    const queuedBytes = await systemIsFull(end);
    assert.ok(queuedBytes > 0);
    assert.equal(takenBytes(), 20 * MIB - queuedBytes);
    const reading = read(far);
    far.resume();
    await eventually(() => end.queuedBytes === 0);
    assert.equal(takenBytes(), 20 * MIB);
    await eventually(() => reading.bytes === 20 * MIB);
  });

  it("can be gone on with from within taken()", async (t) => {
    const { near, far } = await socketPair(t);
    const recorded = record(near);
    const reading = read(far);
    let written = 0;
    recorded.onTaken = () => {
      if (written >= 5 * MIB) recorded.end.close();
      else for (let count = 0; count < 10; count++) recorded.end.write(Buffer.alloc(10 * KIB));
      written += 100 * KIB;
    };
    recorded.onTaken();
    await reading.whenEnded;
    assert.equal(reading.bytes, recorded.takenBytes());
    far.end();
    await recorded.whenClosed;
  });

  for (const [reader, takeMs, mostBytes] of [
    ["fast", 10, 2 * PIECE_BYTES],
    ["slow", 11, PIECE_BYTES / 2],
  ] as const) {
    it(`gives a reader that proves ${reader} ${mostBytes / KIB} KiB at a time at most, and tells when it has them`, async (t) => {
      const { near, far } = await socketPair(t);
      // Asked when a batch has to wait, and when it has been taken.
      const clock = new ManualClock();
      t.mock.method(clock, "now", () => (nowMs += takeMs));
      let nowMs = 0;
      const recorded = record(near, clock);
      const { end } = recorded;
      const taken: number[] = [];
      recorded.onTaken = () => {
        taken.push(recorded.takenBytes() - taken.reduce((sum, bytes) => sum + bytes, 0));
      };
      far.pause();
      writeAll(end, 20 * MIB, PIECE_BYTES);
      await systemIsFull(end);
      const takenBefore = taken.length;
      far.resume();
      await eventually(() => end.queuedBytes === 0);
      // The first one is what it was judged by.
      assert.equal(Math.max(...taken.slice(takenBefore + 1)), mostBytes);
    });
  }

  it("tells of a batch that waits what the system has of it: at once, and then when it is asked", async (t) => {
    const { near, far } = await socketPair(t);
    const { end, takenBytes } = record(near);
    far.pause();
    while (end.queuedBytes === 0) end.write(Buffer.alloc(2 * PIECE_BYTES));
    const writtenBytes = takenBytes() + end.queuedBytes;
    const { _handle: handle } = near as unknown as { _handle: { writeQueueSize: number } };
    assert.equal(end.queuedBytes, handle.writeQueueSize);
    const leftBytes = end.queuedBytes - 1;
    Object.defineProperty(handle, "writeQueueSize", { configurable: true, value: leftBytes });
    end.reportTaken();
    end.reportTaken();
    assert.equal(end.queuedBytes, leftBytes);
    assert.equal(takenBytes(), writtenBytes - leftBytes);
    Reflect.deleteProperty(handle, "writeQueueSize");
    far.resume();
    await eventually(() => end.queuedBytes === 0);
    assert.equal(takenBytes(), writtenBytes);
    end.reportTaken();
    assert.equal(takenBytes(), writtenBytes);
  });

  it("is dropped once the end is closing", async (t) => {
    const { near, far } = await socketPair(t);
    const { end } = record(near);
    const reading = read(far, true);
    end.write(Buffer.from("kept"));
    end.close();
    end.write(Buffer.alloc(10 * MIB));
    await reading.whenEnded;
    assert.equal(reading.text(), "kept");
    far.end();
  });

  it("is still possible after the peer has finished", async (t) => {
    const { near, far } = await socketPair(t);
    const { end, events, received } = record(near);
    const reading = read(far, true);
    far.end("question");
    await eventually(() => events.length > 0);
    assert.equal(received(), "question");
    end.write(Buffer.from("answer"));
    end.close();
    await reading.whenEnded;
    assert.equal(reading.text(), "answer");
    await reading.whenClosed;
    assert.deepEqual(reading.ends, ["end"]);
    await eventually(() => events.length === 2);
    assert.deepEqual(events, ["ended", "closed in order"]);
  });
});

describe("a socket end's reading", () => {
  it("stops and goes on as it is told, and loses nothing", async (t) => {
    const { near, far } = await socketPair(t);
    const { end, received } = record(near);
    far.write("a");
    await eventually(() => received() === "a");
    end.pauseReading();
    await new Promise((resolve) => setImmediate(resolve));
    far.write("b".repeat(300_000));
    far.end();
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    assert.ok(received().length <= 1 + PIECE_BYTES, `${received().length} bytes`);
    end.resumeReading();
    await eventually(() => received().length === 300_001);
  });

  it("holds a peer up while it is paused: memory is bounded by the system's buffers", async (t) => {
    const { near, far } = await socketPair(t);
    const { end, received } = record(near);
    end.pauseReading();
    let written = 0;
    while (far.write(Buffer.alloc(64 * KIB)) || far.writableLength < 512 * KIB) {
      written += 64 * KIB;
      await new Promise((resolve) => setImmediate(resolve));
      assert.ok(written < 100 * MIB);
    }
    const readBytes = near.readableLength + received().length;
    assert.ok(readBytes <= 128 * KIB, `${readBytes} bytes`);
  });

  it("notices while it is paused that a peer which has sent little has left", async (t) => {
    const pairs = await pairMaker(t);
    for (const [leave, expected] of [
      [(far: Socket) => far.end(), "ended"],
      [(far: Socket) => far.resetAndDestroy(), "closed ECONNRESET"],
    ] as const) {
      const { near, far } = await pairs.make();
      const { end, events, received } = record(near);
      far.write("a");
      await eventually(() => received() === "a");
      end.pauseReading();
      far.write("b".repeat(1_000));
      await eventually(() => received().length === 1_001);
      leave(far);
      await eventually(() => events.length > 0);
      assert.deepEqual(events, [expected]);
    }
  });

  it("hands out no more at a time than a packet may hold", async (t) => {
    const { near, far } = await tlsPair(t);
    const sizes: number[] = [];
    new SocketEnd(far, LIMITS, systemClock, {
      data: (piece) => sizes.push(piece.length),
      ended: () => undefined,
      taken: () => undefined,
      closed: () => undefined,
    });
    near.write(Buffer.alloc(1 * MIB));
    await eventually(() => sizes.reduce((total, size) => total + size, 0) === 1 * MIB);
    assert.ok(Math.max(...sizes) <= PIECE_BYTES, `${Math.max(...sizes)} bytes`);
  });
});

describe("finish()", () => {
  it("ends behind what was written, and still receives", async (t) => {
    const { near, far } = await socketPair(t);
    const { end, events, received, whenClosed } = record(near);
    const reading = read(far);
    writeAll(end, 3 * MIB, 64 * KIB);
    end.finish();
    end.finish();
    await reading.whenEnded;
    assert.equal(reading.bytes, 3 * MIB);
    far.write("still here");
    await eventually(() => received() === "still here");
    assert.deepEqual(events, []);
    far.end();
    await whenClosed;
    assert.deepEqual(events, ["ended", "closed in order"]);
  });

  it("lets nothing more be written", async (t) => {
    const { near, far } = await socketPair(t);
    const { end, whenClosed } = record(near);
    const reading = read(far, true);
    end.write(Buffer.from("all"));
    end.finish();
    end.write(Buffer.from("too late"));
    await reading.whenEnded;
    assert.equal(reading.text(), "all");
    far.end();
    await whenClosed;
  });

  for (const turns of [0, 1, 5]) {
    it(`may be followed by close(), ${turns} turns later, which tells when all has left`, async (t) => {
      const { near, far } = await socketPair(t);
      const { end, events, whenClosed } = record(near);
      const reading = read(far);
      end.write(Buffer.alloc(100_000));
      end.finish();
      for (let turn = 0; turn < turns; turn++)
        await new Promise((resolve) => setImmediate(resolve));
      assert.equal(
        await new Promise((resolve) => {
          end.close(resolve);
        }),
        true,
      );
      await reading.whenEnded;
      assert.equal(reading.bytes, 100_000);
      far.end();
      await whenClosed;
      assert.deepEqual(events, ["closed in order"]);
    });
  }

  it("followed by the peer's reset is told as a reset, also together with data", async (t) => {
    const { make } = await pairMaker(t);
    for (let round = 0; round < 50; round++) {
      const { near, far } = await make();
      const { end, events, whenClosed } = record(near);
      end.finish();
      await once(far.resume(), "end");
      far.write(Buffer.alloc(round * 100));
      far.resetAndDestroy();
      await whenClosed;
      assert.deepEqual(events, ["closed ECONNRESET"], `round ${round}`);
    }
  });
});

describe("close()", () => {
  for (const [what, pieceBytes] of [
    ["many pieces", 32 * KIB],
    ["one piece", 10 * MIB],
  ] as const) {
    it(`delivers 10 MiB in ${what} to a slow reader, then the end`, async (t) => {
      const { near, far } = await socketPair(t);
      const { end, events, whenClosed } = record(near);
      const reading = read(far);
      far.on("data", () => {
        far.pause();
        setImmediate(() => far.resume());
      });
      writeAll(end, 10 * MIB, pieceBytes);
      const complete = new Promise<boolean>((resolve) => {
        end.close(resolve);
      });
      assert.equal(await complete, true);
      await reading.whenEnded;
      assert.equal(reading.bytes, 10 * MIB);
      assert.deepEqual(reading.ends, ["end"]);
      far.end();
      await whenClosed;
      assert.deepEqual(events, ["closed in order"]);
      assert.equal(end.queuedBytes, 0);
    });

    it(`is patient with a reader that takes some of 30 MiB in ${what} now and then`, async (t) => {
      const { near, far } = await socketPair(t);
      const clock = new ManualClock();
      const { end, events } = record(near, clock);
      far.pause();
      const reading = read(far);
      far.pause();
      writeAll(end, 30 * MIB, pieceBytes * 3);
      end.close();
      let queued = await systemIsFull(end);
      assert.ok(queued > 15 * MIB, `${queued} bytes`);
      for (let round = 0; round < 4; round++) {
        clock.advance(LIMITS.closeStallMs - 1);
        far.resume();
        await eventually(() => end.queuedBytes < queued);
        far.pause();
        queued = await systemIsFull(end);
        clock.advance(1);
        assert.deepEqual(events, []);
      }
      far.resume();
      await reading.whenEnded;
      assert.equal(reading.bytes, 30 * MIB);
      far.end();
      await eventually(() => events.length > 0);
      assert.equal(clock.pendingTimers, 0);
    });
  }

  it("gives up on a reader that takes nothing, which then sees a reset and no end", async (t) => {
    const { near, far } = await socketPair(t);
    const clock = new ManualClock();
    const { end, events } = record(near, clock);
    far.pause();
    writeAll(end, 20 * MIB, 64 * KIB);
    const flushed: boolean[] = [];
    end.close((complete) => flushed.push(complete));
    await systemIsFull(end);
    // What had progressed until now counts; the next wait sees nothing at all.
    clock.advance(LIMITS.closeStallMs);
    clock.advance(LIMITS.closeStallMs - 1);
    assert.deepEqual(events, []);
    clock.advance(1);
    await eventually(() => events.length > 0);
    assert.deepEqual(events, ["closed in order"]);
    assert.deepEqual(flushed, [false]);
    assert.equal(clock.pendingTimers, 0);
    assert.equal(end.queuedBytes, 0);
    const reading = read(far);
    far.resume();
    await reading.whenClosed;
    assert.ok(reading.bytes < 20 * MIB);
    assert.notDeepEqual(reading.ends, ["end"]);
  });

  it("tells at once when everything has left, and waits a while for the peer to finish", async (t) => {
    const { near, far } = await socketPair(t);
    const clock = new ManualClock();
    const { end, events } = record(near, clock);
    const reading = read(far);
    const flushed: boolean[] = [];
    end.write(Buffer.from("x"));
    end.close((complete) => flushed.push(complete));
    await reading.whenEnded;
    await eventually(() => flushed.length > 0);
    assert.deepEqual(flushed, [true]);
    clock.advance(LIMITS.closeStallMs - 1);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(events, []);
    clock.advance(1);
    await eventually(() => events.length > 0);
    assert.deepEqual(events, ["closed in order"]);
    assert.equal(clock.pendingTimers, 0);
    assert.deepEqual(reading.ends, ["end"]);
  });

  it("is not spoiled by a peer that keeps sending: all arrives, and no reset", async (t) => {
    const { make } = await pairMaker(t);
    for (let round = 0; round < 20; round++) {
      const { near, far } = await make();
      const { end, whenClosed, received } = record(near);
      const reading = read(far);
      let isSending = true;
      const send = () => {
        while (isSending && far.write(Buffer.alloc(16 * KIB)));
      };
      far.on("drain", send);
      send();
      end.write(Buffer.alloc(200_000));
      end.close();
      const receivedBytes = received().length;
      await reading.whenEnded;
      isSending = false;
      far.end();
      await whenClosed;
      assert.equal(reading.bytes, 200_000);
      assert.deepEqual(reading.ends, ["end"]);
      assert.equal(received().length, receivedBytes, "what came while closing was handed on");
    }
  });

  it("of a paused end still notices the peer's end", async (t) => {
    const { near, far } = await socketPair(t);
    const { end, whenClosed, events } = record(near);
    end.pauseReading();
    far.end("unread");
    end.close();
    await whenClosed;
    assert.deepEqual(events, ["closed in order"]);
  });

  it("reports a socket that fails before everything has left", async (t) => {
    const { near, far } = await socketPair(t);
    const { end, events, whenClosed } = record(near);
    far.pause();
    writeAll(end, 20 * MIB, 64 * KIB);
    const flushed: boolean[] = [];
    end.close((complete) => flushed.push(complete));
    await systemIsFull(end);
    far.resetAndDestroy();
    await whenClosed;
    assert.deepEqual(flushed, [false]);
    assert.match(events.join(), /^closed (ECONNRESET|EPIPE)$/);
  });

  it("twice is once", async (t) => {
    const { near, far } = await socketPair(t);
    const { end, whenClosed, events } = record(near);
    let flushes = 0;
    far.end();
    end.close(() => flushes++);
    end.close(() => flushes++);
    far.resume();
    await whenClosed;
    assert.equal(flushes, 1);
    assert.equal(events.filter((event) => event.startsWith("closed")).length, 1);
  });
});

describe("reset()", () => {
  it("is seen as a reset, and told as closed", async (t) => {
    const { near, far } = await socketPair(t);
    const { end, whenClosed, events } = record(near);
    const reading = read(far);
    end.reset();
    end.reset();
    await Promise.all([whenClosed, reading.whenClosed]);
    assert.deepEqual(events, ["closed in order"]);
    assert.deepEqual(reading.ends, ["ECONNRESET"]);
  });

  it("drops what is queued", async (t) => {
    const { near, far } = await socketPair(t);
    const { end, whenClosed } = record(near);
    far.pause();
    writeAll(end, 20 * MIB, 64 * KIB);
    end.reset();
    assert.equal(end.queuedBytes <= 2 * PIECE_BYTES, true);
    await whenClosed;
    assert.equal(end.queuedBytes, 0);
  });

  it("right after close() still closes, although it is too late for a reset", async (t) => {
    const { make } = await pairMaker(t);
    for (const turns of [0, 1, 2, 5]) {
      const { near, far } = await make();
      const clock = new ManualClock();
      const { end, whenClosed, events } = record(near, clock);
      const reading = read(far);
      end.close();
      for (let turn = 0; turn < turns; turn++)
        await new Promise((resolve) => setImmediate(resolve));
      end.reset();
      await whenClosed;
      assert.deepEqual(events, ["closed in order"], `${turns} turns later`);
      assert.equal(clock.pendingTimers, 0);
      far.end();
      await reading.whenClosed;
    }
  });
});

describe("resetBehindData()", () => {
  it("lets a reader have everything first, and then the reset", async (t) => {
    const { make } = await pairMaker(t);
    for (const totalBytes of [1, 100 * KIB, 3 * MIB]) {
      const { near, far } = await make();
      const { end, whenClosed, events } = record(near);
      const reading = read(far);
      writeAll(end, totalBytes, Math.min(totalBytes, 64 * KIB));
      end.resetBehindData();
      end.resetBehindData();
      await Promise.all([whenClosed, reading.whenClosed]);
      assert.ok(reading.bytes >= totalBytes, `${reading.bytes} of ${totalBytes}`);
      assert.deepEqual(reading.ends, ["ECONNRESET"]);
      assert.deepEqual(events, ["closed in order"]);
    }
  });

  it("does not wait for ever for a reader that takes nothing", async (t) => {
    const { near, far } = await socketPair(t);
    const clock = new ManualClock();
    const { end, events } = record(near, clock);
    far.pause();
    writeAll(end, 20 * MIB, 64 * KIB);
    end.resetBehindData();
    await systemIsFull(end);
    clock.advance(2 * LIMITS.closeStallMs);
    await eventually(() => events.length > 0);
    assert.equal(clock.pendingTimers, 0);
  });
});

describe("a socket end whose socket", () => {
  it("is reset by the peer says so, once", async (t) => {
    const { near, far } = await socketPair(t);
    const { events, whenClosed } = record(near);
    far.resetAndDestroy();
    await whenClosed;
    assert.deepEqual(events, ["closed ECONNRESET"]);
  });

  it("has failed before anybody listened says so", async (t) => {
    const { near, far } = await socketPair(t);
    near.on("error", () => undefined);
    near.resume();
    far.resetAndDestroy();
    await once(near, "close").catch(() => undefined);
    if (!near.closed) await new Promise((resolve) => near.once("close", resolve));
    const { events, whenClosed } = record(near);
    assert.deepEqual(events, []);
    await whenClosed;
    assert.deepEqual(events, ["closed ECONNRESET"]);
  });

  it("is destroyed by somebody else says that it is closed", async (t) => {
    const { near } = await socketPair(t);
    const { end, events, whenClosed } = record(near);
    near.destroy();
    end.write(Buffer.from("late"));
    await whenClosed;
    assert.deepEqual(events, ["closed in order"]);
  });

  it("fails while much is queued has nothing left", async (t) => {
    const { near, far } = await socketPair(t);
    const { end, whenClosed, events } = record(near);
    far.pause();
    writeAll(end, 20 * MIB, 64 * KIB);
    await systemIsFull(end);
    far.resetAndDestroy();
    await whenClosed;
    assert.equal(events.length, 1);
    assert.equal(end.queuedBytes, 0);
  });
});
