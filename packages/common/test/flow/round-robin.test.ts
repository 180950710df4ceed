import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { RoundRobin, TURN_BYTES } from "../../src/flow/round-robin.ts";
import type { Sender } from "../../src/flow/round-robin.ts";

/** A sender with a queue of pieces; everything sent is written to a log that all share. */
class QueuedSender implements Sender {
  readonly name: number;
  readonly #pieces: number[];
  readonly #log: { sender: number; bytes: number }[];

  constructor(name: number, pieces: readonly number[], log: { sender: number; bytes: number }[]) {
    this.name = name;
    this.#pieces = [...pieces];
    this.#log = log;
  }

  canSend(): boolean {
    return this.#pieces.length > 0;
  }

  sendUpTo(maxBytes: number): number {
    let sent = 0;
    while (this.#pieces.length > 0 && sent < maxBytes) {
      const piece = this.#pieces.shift()!;
      const bytes = Math.min(piece, maxBytes - sent);
      if (bytes < piece) this.#pieces.unshift(piece - bytes);
      sent += bytes;
    }
    this.#log.push({ sender: this.name, bytes: sent });
    return sent;
  }
}

const queues = fc.array(
  fc.array(fc.integer({ min: 1, max: 300_000 }), { minLength: 1, maxLength: 30 }),
  {
    minLength: 1,
    maxLength: 8,
  },
);

describe("RoundRobin", () => {
  it("keeps senders with equal need within one turn of each other, always", () => {
    fc.assert(
      fc.property(queues, (pieces) => {
        const log: { sender: number; bytes: number }[] = [];
        const ring = new RoundRobin<QueuedSender>();
        const totals = pieces.map((queue) => queue.reduce((a, b) => a + b));
        pieces.forEach((queue, name) => {
          ring.add(new QueuedSender(name, queue, log));
        });
        ring.run(() => true);
        assert.ok(ring.isEmpty);

        const sent = pieces.map(() => 0);
        for (const { sender, bytes } of log) {
          sent[sender]! += bytes;
          const unfinished = sent.filter((total, name) => total < totals[name]!);
          if (unfinished.length < 2) continue;
          assert.ok(Math.max(...unfinished) - Math.min(...unfinished) <= TURN_BYTES);
        }
        assert.deepEqual(sent, totals);
      }),
      { numRuns: 300 },
    );
  });

  it("stops when there is no room and goes on where it stopped", () => {
    const log: { sender: number; bytes: number }[] = [];
    const ring = new RoundRobin<QueuedSender>();
    for (const name of [0, 1, 2]) ring.add(new QueuedSender(name, [200_000], log));
    let turns = 4;
    ring.run(() => turns-- > 0);
    assert.deepEqual(
      log.map(({ sender }) => sender),
      [0, 1, 2, 0],
    );
    turns = 2;
    ring.run(() => turns-- > 0);
    assert.deepEqual(
      log.map(({ sender }) => sender),
      [0, 1, 2, 0, 1, 2],
    );
  });

  it("serves a newcomer after one turn of each who waits, however much they have", () => {
    const log: { sender: number; bytes: number }[] = [];
    const ring = new RoundRobin<QueuedSender>();
    ring.add(new QueuedSender(0, [10_000_000], log));
    ring.add(new QueuedSender(1, [10_000_000], log));
    let turns = 10;
    ring.run(() => turns-- > 0);
    ring.add(new QueuedSender(2, [64], log));
    turns = 3;
    ring.run(() => turns-- > 0);
    assert.deepEqual(
      log.slice(10).map(({ sender }) => sender),
      [0, 1, 2],
    );
  });

  it("forgets a sender that is removed", () => {
    const log: { sender: number; bytes: number }[] = [];
    const ring = new RoundRobin<QueuedSender>();
    const gone = new QueuedSender(0, [10], log);
    ring.add(gone);
    ring.add(new QueuedSender(1, [10], log));
    ring.remove(gone);
    ring.run(() => true);
    assert.deepEqual(log, [{ sender: 1, bytes: 10 }]);
  });
});
