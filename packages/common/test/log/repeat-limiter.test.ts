import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import type { LogEvent, LogFields } from "../../src/log/logger.ts";
import { RepeatLimiter } from "../../src/log/repeat-limiter.ts";

function setup() {
  const clock = new ManualClock();
  const lines: { event: LogEvent; fields: LogFields; repeated: number; atMs: number }[] = [];
  const limiter = new RepeatLimiter(clock, (event, fields, repeated) => {
    lines.push({ event, fields, repeated, atMs: clock.now() });
  });
  const warn = (event: LogEvent, fields: LogFields = {}) => {
    if (limiter.admits(event, fields))
      lines.push({ event, fields, repeated: 1, atMs: clock.now() });
  };
  const total = () => lines.reduce((sum, { repeated }) => sum + repeated, 0);
  return { clock, lines, limiter, warn, total };
}

describe("RepeatLimiter", () => {
  it("makes at most 12 lines that add up to the total of 6000 warnings in a minute", () => {
    const { clock, lines, limiter, warn, total } = setup();
    for (let n = 0; n < 6_000; n++) {
      warn("dial.failed", { address: "10.0.0.1:10250", error: "refused", afterMs: n });
      clock.advance(10);
    }
    limiter.flush();
    assert.ok(lines.length <= 12, `${lines.length} lines`);
    assert.equal(total(), 6_000);
    assert.equal(clock.pendingTimers, 0);
  });

  it("writes the first of its kind at once, and again after a quiet interval", () => {
    const { clock, lines, warn } = setup();
    warn("dial.failed", { address: "a" });
    clock.advance(10_000);
    warn("dial.failed", { address: "a" });
    assert.deepEqual(
      lines.map(({ atMs, repeated }) => [atMs, repeated]),
      [
        [0, 1],
        [10_000, 1],
      ],
    );
  });

  it("leaves no timer behind once nothing repeats", () => {
    const { clock, warn, lines } = setup();
    warn("dial.failed");
    warn("dial.failed");
    clock.advance(10_000);
    assert.equal(lines.length, 2);
    clock.advance(10_000);
    assert.equal(clock.pendingTimers, 0);
  });

  it("shows the fields of the latest one", () => {
    const { clock, lines, warn } = setup();
    warn("log.dropped", { lines: 1 });
    warn("log.dropped", { lines: 2 });
    warn("log.dropped", { lines: 3 });
    clock.advance(10_000);
    assert.deepEqual(lines.at(-1), {
      event: "log.dropped",
      fields: { lines: 3 },
      repeated: 2,
      atMs: 10_000,
    });
  });

  it("tells warnings apart by event and text, not by number or by the connection", () => {
    const { lines, warn } = setup();
    warn("dial.failed", { address: "a", connectionId: "1", attempt: 1 });
    warn("dial.failed", { address: "a", connectionId: "2", attempt: 2 });
    warn("dial.failed", { address: "b", connectionId: "3" });
    warn("packet.unexpected", { address: "a" });
    assert.equal(lines.length, 3);
  });

  it("keeps a peer that varies a text from filling the log", () => {
    const { clock, lines, limiter, warn, total } = setup();
    for (let n = 0; n < 60_000; n++) {
      warn("dial.failed", { address: `host-${n}:1` });
      clock.advance(1);
    }
    limiter.flush();
    assert.ok(lines.length <= 70, `${lines.length} lines`);
    assert.equal(total(), 60_000);
  });
});
