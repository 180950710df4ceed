import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { SendQueue } from "../../src/http2/send-queue.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const step = fc.oneof(
  fc.record({ push: fc.integer({ min: 0, max: 50 }) }),
  fc.record({ takeShare: fc.double({ min: 0, max: 1, noNaN: true }) }),
);

describe("SendQueue", () => {
  it("gives out what was put in, in order, in any portions", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
        const queue = new SendQueue();
        let pushed = 0;
        let taken = 0;
        for (const next of steps) {
          if ("push" in next) {
            const bytes = Array.from({ length: next.push }, () => pushed++ & 0xff);
            queue.push(Buffer.from(bytes));
          } else {
            const out: Buffer[] = [];
            const wanted = Math.floor((pushed - taken) * next.takeShare);
            queue.take(wanted, out);
            const bytes = Buffer.concat(out);
            assert.equal(bytes.length, wanted);
            for (const byte of bytes) assert.equal(byte, taken++ & 0xff);
          }
          assert.equal(queue.bytes, pushed - taken);
        }
      }),
    );
  });

  it("says how much can be taken without cutting a buffer, or a head from what is behind it", () => {
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
