import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import { IdleTimer } from "../src/idle-timer.ts";

function setup() {
  const clock = new ManualClock();
  const firedAtMs: number[] = [];
  const timer = new IdleTimer(clock, () => firedAtMs.push(clock.now()));
  return { clock, firedAtMs, timer };
}

describe("IdleTimer", () => {
  it("fires once after so much silence", () => {
    const { clock, firedAtMs, timer } = setup();
    timer.set(1_000);
    clock.advance(999);
    assert.deepEqual(firedAtMs, []);
    clock.advance(5_000);
    assert.deepEqual(firedAtMs, [1_000]);
  });

  it("starts over with every sign of life, also after it has fired", () => {
    const { clock, firedAtMs, timer } = setup();
    timer.set(1_000);
    for (let i = 0; i < 10; i++) {
      clock.advance(900);
      timer.touch();
    }
    clock.advance(1_000);
    assert.deepEqual(firedAtMs, [10_000]);
    clock.advance(3_000);
    timer.touch();
    clock.advance(1_000);
    assert.deepEqual(firedAtMs, [10_000, 14_000]);
  });

  it("can be shortened, lengthened and switched off", () => {
    const { clock, firedAtMs, timer } = setup();
    timer.set(10_000);
    timer.set(100);
    clock.advance(100);
    assert.deepEqual(firedAtMs, [100]);
    timer.set(500);
    clock.advance(400);
    timer.set(0);
    assert.equal(timer.timeoutMs, 0);
    timer.touch();
    clock.advance(10_000);
    assert.deepEqual(firedAtMs, [100]);
  });

  it("leaves no timer behind after stop()", () => {
    const { clock, timer } = setup();
    timer.set(1_000);
    timer.stop();
    timer.stop();
    timer.touch();
    assert.equal(clock.pendingTimers, 0);
  });
});
