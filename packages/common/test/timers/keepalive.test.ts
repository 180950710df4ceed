import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import { Keepalive } from "../../src/timers/keepalive.ts";

interface Watched {
  readonly clock: ManualClock;
  readonly seen: string[];
  readonly keepalive: Keepalive;
  readonly heard: () => void;
  /** What happens when the peer is asked. */
  onPing: () => void;
}

function watch(intervalMs: number, timeoutMs: number, startAtMs = 0): Watched {
  const clock = new ManualClock();
  const seen: string[] = [];
  let lastHeardMs = clock.now();
  clock.advance(startAtMs);
  const keepalive = new Keepalive({ intervalMs, timeoutMs }, clock, {
    get lastHeardMs() {
      return lastHeardMs;
    },
    sendPing: () => {
      seen.push(`ping@${clock.now()}`);
      watched.onPing();
    },
    onDead: (silentForMs) => {
      seen.push(`dead@${clock.now()} silent=${silentForMs}`);
    },
  });
  const heard = () => {
    lastHeardMs = clock.now();
  };
  const watched: Watched = { clock, seen, keepalive, heard, onPing: () => undefined };
  keepalive.start();
  return watched;
}

describe("Keepalive", () => {
  it("asks nothing while anything keeps arriving", () => {
    const { clock, seen, heard } = watch(30_000, 10_000);
    for (let count = 0; count < 100; count++) {
      clock.advance(29_999);
      heard();
    }
    assert.deepEqual(seen, []);
    assert.equal(clock.pendingTimers, 1);
  });

  it("asks after the interval, counted from what was heard last", () => {
    const { clock, seen, heard } = watch(30_000, 10_000);
    clock.advance(7_000);
    heard();
    clock.advance(29_999);
    assert.deepEqual(seen, []);
    clock.advance(1);
    assert.deepEqual(seen, ["ping@37000"]);
  });

  it("gives up after the timeout, once", () => {
    const { clock, seen } = watch(30_000, 10_000);
    clock.advance(39_999);
    assert.deepEqual(seen, ["ping@30000"]);
    clock.advance(1);
    assert.deepEqual(seen, ["ping@30000", "dead@40000 silent=40000"]);
    clock.advance(1_000_000);
    assert.equal(seen.length, 2);
    assert.equal(clock.pendingTimers, 0);
  });

  for (const afterMs of [0, 1, 5_000, 9_999]) {
    it(`is content with an answer ${afterMs} ms after the question`, () => {
      const { clock, seen, heard } = watch(30_000, 10_000);
      clock.advance(30_000 + afterMs);
      heard();
      clock.advance(29_999);
      assert.deepEqual(seen, ["ping@30000"]);
      clock.advance(1);
      assert.deepEqual(seen, ["ping@30000", `ping@${60_000 + afterMs}`]);
    });
  }

  it("is content with an answer that comes while the question is being sent", () => {
    const watched = watch(30_000, 10_000);
    watched.onPing = watched.heard;
    watched.clock.advance(100_000);
    assert.deepEqual(watched.seen, ["ping@30000", "ping@60000", "ping@90000"]);
  });

  it("asks at every interval also where the timeout is longer than that", () => {
    const watched = watch(2_000, 20_000);
    watched.onPing = () => {
      watched.clock.schedule(1, watched.heard);
    };
    watched.clock.advance(8_100);
    assert.deepEqual(watched.seen, ["ping@2000", "ping@4001", "ping@6002", "ping@8003"]);
  });

  it("asks once, and waits for the whole timeout, where that is longer than the interval", () => {
    const { clock, seen } = watch(2_000, 20_500);
    clock.advance(22_499);
    assert.deepEqual(seen, ["ping@2000"]);
    clock.advance(1);
    assert.deepEqual(seen, ["ping@2000", "dead@22500 silent=22500"]);
    assert.equal(clock.pendingTimers, 0);
  });

  it("asks at once where nothing has been heard for longer than the interval already", () => {
    const { clock, seen } = watch(30_000, 10_000, 50_000);
    clock.advance(0);
    assert.deepEqual(seen, ["ping@50000"]);
  });

  it("leaves no timer behind after stop(), whatever it was waiting for", () => {
    for (const atMs of [0, 10_000, 30_000, 35_000]) {
      const { clock, seen, keepalive } = watch(30_000, 10_000);
      clock.advance(atMs);
      const before = seen.length;
      keepalive.stop();
      keepalive.stop();
      assert.equal(clock.pendingTimers, 0);
      clock.advance(100_000);
      assert.equal(seen.length, before);
    }
  });

  it("can be stopped by the question itself", () => {
    const watched = watch(30_000, 10_000);
    watched.onPing = () => {
      watched.keepalive.stop();
    };
    watched.clock.advance(100_000);
    assert.deepEqual(watched.seen, ["ping@30000"]);
    assert.equal(watched.clock.pendingTimers, 0);
  });
});
