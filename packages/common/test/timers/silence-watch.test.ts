import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { SilenceWatch } from "../../src/timers/silence-watch.ts";

function setup() {
  const clock = new ManualClock();
  const silentAtMs: number[] = [];
  const watch = new SilenceWatch(clock, () => silentAtMs.push(clock.now()));
  return { clock, watch, silentAtMs };
}

describe("SilenceWatch", () => {
  it("tells once, when nothing has happened for the time", () => {
    const { clock, watch, silentAtMs } = setup();
    watch.start(1_000);
    clock.advance(999);
    assert.deepEqual(silentAtMs, []);
    clock.advance(100_000);
    assert.deepEqual(silentAtMs, [1_000]);
    assert.equal(clock.pendingTimers, 0);
  });

  it("counts from the last thing that happened", () => {
    const { clock, watch, silentAtMs } = setup();
    watch.start(1_000);
    for (let turn = 0; turn < 5; turn++) {
      clock.advance(700);
      watch.touch();
    }
    clock.advance(10_000);
    assert.deepEqual(silentAtMs, [4_500]);
  });

  it("sets one timer, however much happens", () => {
    const { clock, watch } = setup();
    watch.start(1_000);
    for (let turn = 0; turn < 100; turn++) watch.touch();
    watch.start(5);
    assert.equal(clock.pendingTimers, 1);
  });

  it("watches nothing before it is started, with a time of 0, or once it is stopped", () => {
    const { clock, watch, silentAtMs } = setup();
    watch.touch();
    watch.start(0);
    assert.equal(clock.pendingTimers, 0);
    watch.start(1_000);
    watch.stop();
    watch.stop();
    watch.touch();
    assert.equal(clock.pendingTimers, 0);
    clock.advance(10_000);
    assert.deepEqual(silentAtMs, []);
  });

  it("can be started again", () => {
    const { clock, watch, silentAtMs } = setup();
    watch.start(1_000);
    clock.advance(1_000);
    watch.start(500);
    clock.advance(500);
    assert.deepEqual(silentAtMs, [1_000, 1_500]);
  });
});
