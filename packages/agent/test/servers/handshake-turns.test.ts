import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import { HandshakeTurns } from "../../src/servers/handshake-turns.ts";

describe("turns to shake hands", () => {
  function setup() {
    const clock = new ManualClock();
    const turns = new HandshakeTurns(clock);
    const came: number[] = [];
    const taken = Array.from({ length: 6 }, (_, index) => {
      const turn = turns.take();
      void turn.come.then(() => came.push(index));
      return turn;
    });
    const settle = () => new Promise((resolve) => setImmediate(resolve));
    return { clock, came, taken, settle };
  }

  it("come three at a time, in order, and not to those that are over", async () => {
    const { clock, came, taken, settle } = setup();
    await settle();
    assert.deepEqual(came, [0, 1, 2]);
    taken[3]?.over();
    taken[1]?.over();
    taken[1]?.over();
    await settle();
    assert.deepEqual(came, [0, 1, 2, 4]);
    for (const turn of taken) turn.over();
    await settle();
    assert.equal(clock.pendingTimers, 0);
  });

  it("come all the same behind handshakes that hang", async () => {
    const { clock, came, taken, settle } = setup();
    clock.advance(1_000);
    await settle();
    assert.deepEqual(came, [0, 1, 2, 3, 4, 5]);
    taken[0]?.over();
    for (const turn of taken) turn.over();
    assert.equal(clock.pendingTimers, 0);
  });
});
