import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { recycledMemory } from "../src/recycled-memory.ts";
import { JOINED_BEHIND, SMALL_BYTES, SendQueue } from "../src/send-queue.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** Sizes around what is joined, and that many buffers wait, are likely. */
const step = fc.oneof(
  { weight: 80, arbitrary: fc.record({ push: fc.integer({ min: 0, max: 50 }) }) },
  { weight: 10, arbitrary: fc.record({ push: fc.integer({ min: 0, max: 2 * SMALL_BYTES }) }) },
  { weight: 5, arbitrary: fc.record({ takeShare: fc.double({ min: 0, max: 0.2, noNaN: true }) }) },
  { weight: 1, arbitrary: fc.record({ takeShare: fc.double({ min: 0, max: 1, noNaN: true }) }) },
);

describe("SendQueue", () => {
  it("gives out what was put in, in order, in any portions", () => {
    fc.assert(
      fc.property(
        fc.boolean(),
        fc.array(step, { maxLength: 300, size: "max" }),
        (manyWait, steps) => {
          const queue = new SendQueue();
          let pushed = 0;
          let taken = 0;
          const out: Buffer[] = [];
          const push = (bytes: number) => {
            queue.push(Buffer.from(Array.from({ length: bytes }, () => pushed++ % 251)));
          };
          if (manyWait) for (let count = 0; count < JOINED_BEHIND; count++) push(1);
          for (const next of steps) {
            if ("push" in next) {
              push(next.push);
            } else {
              const wanted = Math.floor((pushed - taken) * next.takeShare);
              queue.take(wanted, out);
              taken += wanted;
            }
            assert.equal(queue.bytes, pushed - taken);
          }
          // Only now, when what is taken can have been written over.
          const bytes = Buffer.concat(out);
          assert.equal(bytes.length, taken);
          assert.ok(bytes.every((byte, at) => byte === at % 251));
        },
      ),
    );
  });

  it("joins small buffers that wait behind many, so that few are held", () => {
    const queue = new SendQueue();
    const message = Buffer.from("message ");
    for (let count = 0; count < 100_000; count++) queue.push(message);
    const out: Buffer[] = [];
    queue.take(queue.bytes, out);
    assert.ok(out.length < JOINED_BEHIND + 100_000 / (SMALL_BYTES - 8), String(out.length));
    assert.ok(Buffer.concat(out).equals(Buffer.alloc(800_000, message)));
  });

  it("leaves large buffers as they are, however many wait", () => {
    const queue = new SendQueue();
    const buffers = Array.from({ length: 4 * JOINED_BEHIND }, (_, at) =>
      Buffer.alloc(at % 2 === 0 ? SMALL_BYTES : 1, at),
    );
    for (const buffer of buffers) queue.push(buffer);
    const out: Buffer[] = [];
    queue.take(queue.bytes, out);
    assert.equal(out.length, buffers.length);
    assert.ok(out.every((buffer, at) => buffer === buffers[at]));
  });

  it("releases what it has joined", () => {
    const queue = new SendQueue();
    for (let count = 0; count < JOINED_BEHIND; count++) queue.push(Buffer.alloc(SMALL_BYTES));
    const block = recycledMemory.lend()!;
    for (let at = 0; at < 8; at++) {
      const kept = recycledMemory.keep(block.memory.subarray(at * 4096, (at + 1) * 4096));
      recycledMemory.release(kept.subarray(100));
      queue.push(kept.subarray(0, 100));
    }
    assert.ok(recycledMemory.isUnused(block));
    recycledMemory.takeBack(block);
  });

  it("takes no part of a buffer where none has to be cut", () => {
    const queue = new SendQueue();
    for (const bytes of [600, 500, 20, 600]) queue.push(Buffer.alloc(bytes));
    assert.equal(queue.wholeBytes(5_000), 1_720);
    assert.equal(queue.wholeBytes(1_719), 1_120);
    assert.equal(queue.wholeBytes(1_120), 1_120);
    assert.equal(queue.wholeBytes(600), 600);
    assert.equal(queue.wholeBytes(599), 599);
    queue.take(599, []);
    assert.equal(queue.wholeBytes(1_000), 521);
    assert.equal(new SendQueue().wholeBytes(100), 0);
  });

  it("replaces a buffer, but none that has been taken, be it in part", () => {
    const bytesOf = (queue: SendQueue) => {
      const out: Buffer[] = [];
      queue.take(queue.bytes, out);
      return Buffer.concat(out).toString();
    };
    const length = fc.integer({ min: SMALL_BYTES, max: SMALL_BYTES + 5 });
    const lengths = fc.array(length, { minLength: 1, maxLength: 400 });
    fc.assert(
      fc.property(lengths, fc.nat(), fc.nat(), fc.nat(), (bytes, whichSeed, takenSeed, more) => {
        const queue = new SendQueue();
        const buffers = bytes.map((length, at) => Buffer.alloc(length, 65 + (at % 26)));
        for (const buffer of buffers) queue.push(buffer);
        const which = whichSeed % buffers.length;
        const takenBytes = takenSeed % (queue.bytes + 1);
        queue.take(takenBytes, []);
        const replacement = Buffer.alloc(1 + (more % 9), "-");
        const startsAt = Buffer.concat(buffers.slice(0, which)).length;
        const replaces = queue.replace(buffers[which]!, buffers.length - 1 - which, replacement);
        assert.equal(replaces, takenBytes <= startsAt);
        if (replaces) buffers[which] = replacement;
        assert.equal(bytesOf(queue), Buffer.concat(buffers).subarray(takenBytes).toString());
      }),
    );
  });

  it("does not replace one that is not where it should be", () => {
    const queue = new SendQueue();
    const buffers = ["ab", "cd", "ef"].map((text) => Buffer.from(text));
    for (const buffer of buffers) queue.push(buffer);
    assert.equal(queue.replace(buffers[0]!, 1, Buffer.from("-")), false);
    assert.equal(queue.replace(buffers[0]!, 3, Buffer.from("-")), false);
    assert.equal(queue.bytes, 6);
  });

  it("says how much can be taken without cutting a head and what is behind it", () => {
    const queue = new SendQueue();
    for (const bytes of [20, 600, 20, 600, 20, 30, 600]) queue.push(Buffer.alloc(bytes));
    assert.equal(queue.uncutBytes(1_240), 1_240);
    assert.equal(queue.uncutBytes(1_239), 620);
    assert.equal(queue.uncutBytes(1_889), 1_240);
    assert.equal(queue.uncutBytes(620), 620);
    const out: Buffer[] = [];
    queue.take(630, out);
    assert.equal(queue.uncutBytes(1_000), 610);
  });

  it("takes what is behind a head for one, however many buffers it is", () => {
    const queue = new SendQueue();
    for (const bytes of [20, 600, 500, 20, 600, 70, 20, 600]) queue.push(Buffer.alloc(bytes));
    assert.equal(queue.uncutBytes(1_119), 1_119);
    assert.equal(queue.uncutBytes(1_120), 1_120);
    assert.equal(queue.uncutBytes(1_809), 1_120);
    assert.equal(queue.uncutBytes(1_810), 1_810);
  });

  it("has to be cut where the first buffer is too large", () => {
    const queue = new SendQueue();
    queue.push(Buffer.alloc(20));
    queue.push(Buffer.alloc(600));
    assert.equal(queue.uncutBytes(619), 619);
    assert.equal(queue.uncutBytes(10), 10);
  });

  it("copies nothing", () => {
    const queue = new SendQueue();
    const buffer = Buffer.alloc(100_000);
    queue.push(buffer);
    const out: Buffer[] = [];
    queue.take(40_000, out);
    queue.take(60_000, out);
    assert.deepEqual(
      out.map((piece) => [piece.buffer === buffer.buffer, piece.byteOffset - buffer.byteOffset]),
      [
        [true, 0],
        [true, 40_000],
      ],
    );
  });

  it("lets go of what was taken although it is never empty, nor cut between two buffers", async () => {
    const queue = new SendQueue();
    const pushed: WeakRef<ArrayBufferLike>[] = [];
    const push = () => {
      const buffer = Buffer.alloc(64 * 1024);
      pushed.push(new WeakRef(buffer.buffer));
      queue.push(buffer);
    };
    push();
    for (let turn = 0; turn < 300; turn++) {
      push();
      queue.take(turn === 0 ? 1_000 : 64 * 1024, []);
    }
    // A WeakRef keeps what it was made of until the turn of the event loop is over.
    await nextTurn();
    collectGarbage();
    const held = pushed.filter((memory) => memory.deref() !== undefined).length;
    assert.equal(queue.bytes, 2 * 64 * 1024 - 1_000);
    assert.ok(held <= 2, `${held} of ${pushed.length} buffers are held`);
  });

  it("is empty after clear(), and can be used again", () => {
    const queue = new SendQueue();
    queue.push(Buffer.from("old"));
    queue.clear();
    assert.equal(queue.bytes, 0);
    queue.push(Buffer.from("new"));
    const out: Buffer[] = [];
    queue.take(3, out);
    assert.equal(Buffer.concat(out).toString(), "new");
  });
});
