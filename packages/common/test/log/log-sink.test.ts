import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import { LogSink } from "../../src/log/log-sink.ts";
import type { LogTarget, WriteDone } from "../../src/log/log-target.ts";

/** A target whose every write waits for the test, or is taken at once. */
class FakeTarget implements LogTarget {
  text = "";
  closed = false;
  pending: { chunk: Buffer; done: WriteDone } | undefined;
  takesAtOnce = false;

  write(chunk: Buffer, done: WriteDone): void {
    this.pending = { chunk, done };
    if (this.takesAtOnce) this.take();
  }

  writeSync(chunk: Buffer): number {
    this.text += chunk.toString();
    return chunk.length;
  }

  close(): void {
    this.closed = true;
  }

  take(bytes = Infinity): void {
    const { chunk, done } = this.#next();
    const taken = chunk.subarray(0, bytes);
    this.text += taken.toString();
    done(null, taken.length);
  }

  fail(code: string): void {
    this.#next().done(Object.assign(new Error(code), { code }), 0);
  }

  #next() {
    const { pending } = this;
    assert.ok(pending !== undefined, "nothing is being written");
    this.pending = undefined;
    return pending;
  }
}

function setup() {
  const clock = new ManualClock();
  const target = new FakeTarget();
  const told: string[] = [];
  const sink = new LogSink(target, clock, {
    dropped: (lines) => {
      told.push(`dropped ${lines}`);
      sink.write(`dropped ${lines}\n`);
    },
    failed: (error) => told.push(`failed ${String(error)}`),
  });
  return { clock, target, told, sink };
}

describe("LogSink", () => {
  it("writes what came meanwhile in one piece, in order", () => {
    const { target, sink } = setup();
    sink.write("one\n");
    sink.write("two\n");
    sink.write("three\n");
    target.take();
    target.take();
    assert.equal(target.text, "one\ntwo\nthree\n");
    assert.equal(target.pending, undefined);
  });

  it("goes on where a target stopped in the middle of a line", () => {
    const { target, sink } = setup();
    sink.write("hello\n");
    target.take(2);
    target.take();
    assert.equal(target.text, "hello\n");
  });

  it("tries again a moment after a target was full", () => {
    const { clock, target, sink } = setup();
    sink.write("hello\n");
    target.fail("EAGAIN");
    assert.equal(target.pending, undefined);
    clock.advance(50);
    target.take();
    assert.equal(target.text, "hello\n");
    assert.equal(clock.pendingTimers, 0);
  });

  it("drops the newest lines beyond its bound and says how many, once there is room", () => {
    const { target, told, sink } = setup();
    const line = `${"x".repeat(1023)}\n`;
    for (let n = 0; n < 10_000; n++) sink.write(line);
    assert.deepEqual(told, []);
    target.takesAtOnce = true;
    target.take();
    const written = target.text.split("\n").filter((text) => text.startsWith("x")).length;
    assert.ok(written >= 4096 && written < 4200, `${written} lines`);
    assert.deepEqual(told, [`dropped ${10_000 - written}`]);
    assert.equal(target.text, line.repeat(written) + `dropped ${10_000 - written}\n`);
  });

  it("gives a refused line up, says so once, and goes on", () => {
    const { target, told, sink } = setup();
    for (const line of ["one\n", "two\n"]) {
      sink.write(line);
      target.fail("ENOSPC");
    }
    sink.write("three\n");
    target.takesAtOnce = true;
    target.take();
    assert.deepEqual(told, ["failed Error: ENOSPC", "dropped 2"]);
    assert.equal(target.text, "three\ndropped 2\n");
  });

  it("closes its target when everything is written", async () => {
    const { clock, target, sink } = setup();
    sink.write("hello\n");
    const closed = sink.close(2_000);
    assert.equal(target.closed, false);
    target.take();
    await closed;
    assert.equal(target.text, "hello\n");
    assert.equal(target.closed, true);
    assert.equal(clock.pendingTimers, 0);
  });

  it("waits no longer for a reader that does not read than it is told", async () => {
    const { clock, target, sink } = setup();
    sink.write("hello\n");
    target.fail("EAGAIN");
    const closed = sink.close(2_000);
    for (let ms = 0; ms < 2_000; ms += 50) {
      clock.advance(50);
      if (target.pending !== undefined) target.fail("EAGAIN");
    }
    await closed;
    assert.equal(clock.pendingTimers, 0);
    sink.write("too late\n");
    assert.equal(target.text, "");
  });

  it("hands the rest over at once before an exit, in order", () => {
    const { clock, target, sink } = setup();
    sink.write("one\n");
    target.fail("EAGAIN");
    sink.write("two\n");
    sink.flushSync();
    assert.equal(target.text, "one\ntwo\n");
    assert.equal(clock.pendingTimers, 0);
  });

  it("leaves a write that is under way to whoever does it", () => {
    const { target, sink } = setup();
    sink.write("one\n");
    sink.write("two\n");
    sink.flushSync();
    target.take();
    assert.equal(target.text, "two\none\n");
  });

  it("does not line up behind a write that is stuck", () => {
    const { clock, target, sink } = setup();
    sink.write("one\n");
    sink.write("two\n");
    clock.advance(501);
    sink.flushSync();
    assert.equal(target.text, "");
  });
});
