import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { DelayQueue } from "../../src/delay-relay/delay-queue.ts";

const ROOM = 1_000_000;

describe("DelayQueue", () => {
  it("holds each item for the delay, to the millisecond", () => {
    const queue = new DelayQueue<string>(25, ROOM);
    queue.push("a", 100);
    queue.push("b", 110);
    assert.equal(queue.nextDueMs, 125);
    assert.equal(queue.shiftDue(124), undefined);
    assert.equal(queue.shiftDue(125), "a");
    assert.equal(queue.shiftDue(125), undefined);
    assert.equal(queue.nextDueMs, 135);
    assert.equal(queue.shiftDue(1_000), "b");
    assert.equal(queue.nextDueMs, undefined);
    assert.ok(queue.isEmpty);
  });

  it("lets everything through at once when there is no delay", () => {
    const queue = new DelayQueue<string>(0, ROOM);
    queue.push("a", 7);
    assert.equal(queue.shiftDue(7), "a");
  });

  it("is full at its capacity, and takes what comes nevertheless", () => {
    const queue = new DelayQueue<string>(10, 4);
    queue.push("abc", 0);
    assert.ok(!queue.isFull);
    queue.push("d", 0);
    assert.ok(queue.isFull);
    queue.push("e", 0);
    assert.equal(queue.shiftDue(10), "abc");
    assert.ok(!queue.isFull);
  });

  it("keeps order and loses nothing, however pushes and shifts mix", () => {
    const step = fc.record({
      waitMs: fc.integer({ min: 0, max: 30 }),
      pushes: fc.integer({ min: 0, max: 300 }),
      shifts: fc.integer({ min: 0, max: 300 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const queue = new DelayQueue<string>(20, ROOM);
        let nowMs = 0;
        let pushed = 0;
        const out: string[] = [];
        for (const { waitMs, pushes, shifts } of steps) {
          nowMs += waitMs;
          for (let count = 0; count < pushes; count++) queue.push(String(pushed++), nowMs);
          for (let count = 0; count < shifts; count++) {
            const item = queue.shiftDue(nowMs);
            if (item !== undefined) out.push(item);
          }
        }
        while (!queue.isEmpty) out.push(queue.shiftDue(nowMs + 20) ?? assert.fail("not due"));
        assert.deepEqual(
          out,
          Array.from({ length: pushed }, (_, index) => String(index)),
        );
      }),
    );
  });
});
