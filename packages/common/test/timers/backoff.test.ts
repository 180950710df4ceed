import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SeededRandom } from "@reachback/common/testing";
import type { Random } from "../../src/random.ts";
import { Backoff, jittered } from "../../src/timers/backoff.ts";

function fixed(fraction: number): Random {
  return { fraction: () => fraction, int63: () => 0n, uuid: () => "" };
}

const OPTIONS = { initialMs: 1_000, capMs: 10_000, factor: 1.5, jitter: 0.1 };

describe("Backoff", () => {
  it("grows by its factor up to its cap", () => {
    const backoff = new Backoff(OPTIONS, fixed(0));
    const waits = Array.from({ length: 8 }, () => backoff.next());
    assert.deepEqual(waits, [1_000, 1_500, 2_250, 3_375, 5_062.5, 7_593.75, 10_000, 10_000]);
  });

  it("adds its jitter to every wait, the longest included, and never lets it add up", () => {
    const backoff = new Backoff(OPTIONS, fixed(0.5));
    const waits = Array.from({ length: 8 }, () => backoff.next());
    for (const [at, baseMs] of [
      1_000, 1_500, 2_250, 3_375, 5_062.5, 7_593.75, 10_000, 10_000,
    ].entries()) {
      assert.equal(waits[at], baseMs * 1.05);
    }
  });

  it("begins anew after reset()", () => {
    const backoff = new Backoff(OPTIONS, fixed(0));
    for (let count = 0; count < 20; count++) backoff.next();
    backoff.reset();
    backoff.reset();
    assert.deepEqual([backoff.next(), backoff.next()], [1_000, 1_500]);
  });

  it("stays at its cap where it begins above it", () => {
    const backoff = new Backoff({ ...OPTIONS, initialMs: 20_000 }, fixed(0));
    assert.deepEqual([backoff.next(), backoff.next()], [10_000, 10_000]);
    backoff.reset();
    assert.equal(backoff.next(), 10_000);
  });

  it("never overflows, however long it goes on", () => {
    const backoff = new Backoff({ ...OPTIONS, factor: 1e100 }, fixed(1));
    for (let count = 0; count < 1_000; count++) assert.ok(backoff.next() <= 11_000);
  });

  it("with a factor of one waits the same each time", () => {
    const backoff = new Backoff({ ...OPTIONS, factor: 1 }, fixed(0));
    assert.deepEqual([backoff.next(), backoff.next(), backoff.next()], [1_000, 1_000, 1_000]);
  });
});

describe("jittered", () => {
  it("makes a wait longer by at most its share, and never shorter", () => {
    const random = new SeededRandom(1);
    const waits = Array.from({ length: 1_000 }, () => jittered(100, 0.25, random));
    assert.ok(waits.every((wait) => wait >= 100 && wait <= 125));
    assert.ok(Math.max(...waits) > 124 && Math.min(...waits) < 101);
  });

  it("without a share leaves a wait as it is", () => {
    assert.equal(jittered(100, 0, fixed(0.99)), 100);
  });
});
