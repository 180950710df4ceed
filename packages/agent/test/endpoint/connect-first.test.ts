import assert from "node:assert/strict";
import { Socket } from "node:net";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { ManualClock } from "@reachback/common/testing";
import { connectFirst } from "../../src/endpoint/connect-first.ts";

interface Attempt {
  readonly address: string;
  readonly startedAtMs: number;
  readonly signal: AbortSignal;
  readonly succeed: () => Promise<Socket>;
  readonly fail: (message: string) => Promise<void>;
}

function setup(addresses: string[]) {
  const clock = new ManualClock();
  const attempts: Attempt[] = [];
  const controller = new AbortController();
  const outcome = connectFirst(addresses, {
    clock,
    delayMs: 250,
    signal: controller.signal,
    connect: (address, signal) =>
      new Promise((resolve, reject) => {
        attempts.push({
          address,
          startedAtMs: clock.now(),
          signal,
          succeed: async () => {
            const socket = new Socket();
            resolve(socket);
            await nextTurn();
            return socket;
          },
          fail: (message) => {
            reject(new Error(message));
            return nextTurn();
          },
        });
      }),
  });
  outcome.catch(() => undefined);
  const starts = () => attempts.map(({ address, startedAtMs }) => `${address}@${startedAtMs}`);
  return { clock, attempts, controller, outcome, starts };
}

describe("connectFirst", () => {
  it("tries one address after the other, a quarter of a second apart, and waits for all", async () => {
    const { clock, attempts, outcome, starts } = setup(["a", "b", "c"]);
    clock.advance(10_000);
    assert.deepEqual(starts(), ["a@0", "b@250", "c@500"]);
    const socket = await attempts[0]!.succeed();
    assert.equal(await outcome, socket);
    assert.equal(attempts[1]?.signal.aborted, true);
    assert.equal(attempts[2]?.signal.aborted, true);
    assert.equal(clock.pendingTimers, 0);
  });

  it("tries the next one at once when one fails", async () => {
    const { clock, attempts, outcome, starts } = setup(["a", "b", "c"]);
    clock.advance(100);
    await attempts[0]!.fail("refused");
    assert.deepEqual(starts(), ["a@0", "b@100"]);
    clock.advance(249);
    assert.deepEqual(starts(), ["a@0", "b@100"]);
    clock.advance(1);
    assert.deepEqual(starts(), ["a@0", "b@100", "c@350"]);
    const socket = await attempts[2]!.succeed();
    assert.equal(await outcome, socket);
    assert.equal(clock.pendingTimers, 0);
  });

  it("fails with the first failure when all have failed", async () => {
    const { clock, attempts, outcome } = setup(["a", "b"]);
    clock.advance(250);
    await attempts[1]!.fail("second address");
    await attempts[0]!.fail("first address");
    await assert.rejects(outcome, /second address/);
    assert.equal(clock.pendingTimers, 0);
  });

  it("destroys a connection that comes too late", async () => {
    const { clock, attempts, outcome } = setup(["a", "b"]);
    clock.advance(250);
    const winner = await attempts[1]!.succeed();
    const late = await attempts[0]!.succeed();
    assert.equal(await outcome, winner);
    assert.equal(late.destroyed, true);
    assert.equal(winner.destroyed, false);
  });

  it("ends with the caller's reason, and with it every attempt", async () => {
    const { clock, attempts, controller, outcome } = setup(["a", "b", "c"]);
    clock.advance(250);
    const reason = new Error("enough");
    controller.abort(reason);
    await assert.rejects(outcome, reason);
    assert.ok(attempts.every(({ signal }) => signal.aborted));
    assert.equal(attempts.length, 2);
    assert.equal((await attempts[0]!.succeed()).destroyed, true);
    assert.equal(clock.pendingTimers, 0);
  });

  it("begins nothing for a caller who has left", async () => {
    const reason = new Error("gone");
    const outcome = connectFirst(["a"], {
      clock: new ManualClock(),
      delayMs: 250,
      signal: AbortSignal.abort(reason),
      connect: () => assert.fail("an attempt was made"),
    });
    await assert.rejects(outcome, reason);
  });
});
