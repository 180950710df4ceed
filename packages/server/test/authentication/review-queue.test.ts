import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { ApiError, MetricRegistry } from "@reachback/common";
import { ManualClock, RecordingLogger, SeededRandom } from "@reachback/common/testing";
import { AuthenticationMetrics } from "../../src/authentication/authentication-metrics.ts";
import { ReviewQueue } from "../../src/authentication/review-queue.ts";
import type { PendingVerdict, ReviewQueueOptions } from "../../src/authentication/review-queue.ts";
import type { Verdict } from "../../src/authentication/verdict.ts";

const ACCEPTED: Verdict = { accepted: true, username: "system:serviceaccount:ns:sa" };

interface UnderWay {
  readonly token: string;
  readonly answer: (verdict: Verdict | Error) => Promise<void>;
}

/** A queue whose reviews a test answers, and what agents were told. */
function setUp(options: Partial<ReviewQueueOptions> = {}) {
  const clock = new ManualClock();
  const logger = new RecordingLogger();
  const underWay: UnderWay[] = [];
  const told: string[] = [];
  const queue = new ReviewQueue(
    { maxWaiting: 1_000, timeoutMs: 30_000, perSecond: 50, burst: 100, ...options },
    (token) =>
      new Promise((resolve, reject) => {
        const answer = async (verdict: Verdict | Error) => {
          underWay.splice(underWay.indexOf(entry), 1);
          if (verdict instanceof Error) reject(verdict);
          else resolve(verdict);
          await nextTurn();
        };
        const entry: UnderWay = { token, answer };
        underWay.push(entry);
      }),
    {
      clock,
      random: new SeededRandom(1),
      logger,
      metrics: new AuthenticationMetrics(new MetricRegistry(), () => 0),
    },
  );
  const add = (token: string, name = token): PendingVerdict => {
    const pending = queue.add(`hash of ${token}`, token);
    if ("accepted" in pending) {
      told.push(`${name}: ${textOf(pending)}`);
      return { onVerdict: undefined, cancel: () => undefined };
    }
    pending.onVerdict = (verdict) => told.push(`${name}: ${textOf(verdict)}`);
    return pending;
  };
  return {
    clock,
    logger,
    queue,
    underWay,
    told,
    add,
    tokens: () => underWay.map(({ token }) => token),
  };
}

function textOf(verdict: Verdict): string {
  return verdict.accepted ? "accepted" : `${verdict.status.code} ${verdict.status.message}`;
}

function unreachable(): ApiError {
  return new ApiError("POST https://api: connection refused", 0, "Unreachable");
}

const NO_REVIEW =
  "14 Failed to validate authentication token, err:Failed to authenticate request. err: ";

describe("the queue of reviews", () => {
  it("asks once for all agents of a token, and tells each", async () => {
    const { add, underWay, told, tokens, queue, clock } = setUp();
    add("a", "first");
    add("a", "second");
    add("b");
    assert.deepEqual(tokens(), ["a", "b"]);
    add("a", "third");
    await underWay[0]!.answer(ACCEPTED);
    assert.deepEqual(told, ["first: accepted", "second: accepted", "third: accepted"]);
    assert.equal(queue.waitingCount, 1);
    await underWay[0]!.answer(ACCEPTED);
    assert.equal(clock.pendingTimers, 0);
  });

  it("keeps to its rate, in the order in which agents came", async () => {
    const { add, underWay, tokens, clock } = setUp({ perSecond: 2, burst: 1 });
    for (const token of ["a", "b", "c"]) add(token);
    assert.deepEqual(tokens(), ["a"]);
    clock.advance(499);
    assert.deepEqual(tokens(), ["a"]);
    clock.advance(1);
    assert.deepEqual(tokens(), ["a", "b"]);
    clock.advance(500);
    assert.deepEqual(tokens(), ["a", "b", "c"]);
    for (const review of [...underWay]) await review.answer(ACCEPTED);
  });

  it("has no more than 64 under way", async () => {
    const { add, underWay } = setUp();
    for (let index = 0; index < 80; index++) add(`token-${index}`);
    assert.equal(underWay.length, 64);
    await underWay[0]!.answer(ACCEPTED);
    assert.equal(underWay.length, 64);
  });

  it("drops a review that nobody waits for any more, but not one under way", async () => {
    const { add, underWay, told, tokens, clock } = setUp({ perSecond: 1, burst: 1 });
    const a = add("a");
    const b = add("b");
    a.cancel();
    b.cancel();
    b.cancel();
    clock.advance(5_000);
    assert.deepEqual(tokens(), ["a"]);
    add("a", "again");
    await underWay[0]!.answer(ACCEPTED);
    assert.deepEqual(told, ["again: accepted"]);
    assert.equal(clock.pendingTimers, 0);
  });

  it("tells one too many at once, and one that waited too long why", () => {
    const { add, told, clock, queue } = setUp({ maxWaiting: 2, timeoutMs: 5_000 });
    add("a");
    add("b");
    add("c");
    assert.deepEqual(told, [`c: ${NO_REVIEW}2 agents wait for reviews already, try again later`]);
    clock.advance(5_000);
    assert.deepEqual(told.slice(1), [
      `a: ${NO_REVIEW}no answer to the TokenReview within 5 s: 2 agents wait for reviews`,
      `b: ${NO_REVIEW}no answer to the TokenReview within 5 s: 1 agents wait for reviews`,
    ]);
    assert.equal(queue.waitingCount, 0);
  });

  it("tries one review again and again while the apiserver is away, then goes on with all", async () => {
    const { add, underWay, told, tokens, clock, logger } = setUp();
    for (const token of ["a", "b", "c"]) add(token);
    for (const review of [...underWay]) await review.answer(unreachable());
    assert.deepEqual(tokens(), []);
    clock.advance(110);
    assert.deepEqual(tokens(), ["a"], "one at a time");
    for (let attempt = 0; attempt < 10; attempt++) {
      await underWay[0]!.answer(unreachable());
      assert.deepEqual(tokens(), []);
      clock.advance(1_100);
      assert.equal(tokens().length, 1, "at least once a second");
    }
    assert.deepEqual(told, []);
    await underWay[0]!.answer(ACCEPTED);
    clock.advance(100);
    assert.equal(underWay.length, 2);
    for (const review of [...underWay]) await review.answer(ACCEPTED);
    assert.equal(told.length, 3);
    assert.equal(clock.pendingTimers, 0);
    assert.equal(logger.lines.filter(({ event }) => event === "token.reviewing").length, 1);
  });

  it("says why the apiserver could not be asked to those who wait for it in vain", async () => {
    const { add, underWay, told, clock } = setUp();
    add("a");
    await underWay[0]!.answer(unreachable());
    clock.advance(30_000);
    assert.deepEqual(told, [
      `a: ${NO_REVIEW}no answer to the TokenReview within 30 s: POST https://api: connection refused`,
    ]);
  });

  it("pauses as long as the apiserver asks when it throttles, and does not make up for it", async () => {
    const { add, underWay, tokens, clock } = setUp({ perSecond: 2, burst: 10 });
    add("a");
    add("b");
    const throttled = new ApiError("429", 429, "TooManyRequests", { retryAfterMs: 3_000 });
    for (const review of [...underWay]) await review.answer(throttled);
    clock.advance(2_999);
    assert.deepEqual(tokens(), []);
    clock.advance(1);
    assert.deepEqual(tokens(), ["a"]);
    clock.advance(500);
    assert.deepEqual(tokens(), ["a", "b"]);
    for (const review of [...underWay]) await review.answer(ACCEPTED);
  });

  it("refuses at once what will not get better by itself", async () => {
    const { add, underWay, told, logger } = setUp();
    add("a");
    await underWay[0]!.answer(new ApiError("POST https://api: 403 Forbidden", 403, "Forbidden"));
    assert.deepEqual(told, [
      "a: 2 Failed to validate authentication token, err:Failed to authenticate request. err: POST https://api: 403 Forbidden",
    ]);
    assert.match(String(logger.lines[0]?.fields["hint"]), /system:auth-delegator/);
  });

  it("lets in who waits for a token that somebody else has had reviewed", async () => {
    const { add, underWay, told, tokens, clock, queue } = setUp({ perSecond: 1, burst: 1 });
    const learn = (token: string) => {
      queue.learn({ hash: `hash of ${token}`, verdict: ACCEPTED, expiresAtMs: Infinity });
    };
    add("a");
    add("b");
    learn("b");
    learn("nobody's");
    assert.deepEqual(told, ["b: accepted"]);
    clock.advance(5_000);
    assert.deepEqual(tokens(), ["a"], "b is not reviewed any more");
    learn("a");
    assert.deepEqual(told, ["b: accepted", "a: accepted"], "nor is one under way waited for");
    assert.equal(queue.waitingCount, 0);
    await underWay[0]!.answer(unreachable());
    clock.advance(30_000);
    assert.deepEqual(tokens(), [], "a is not tried again");
    assert.equal(told.length, 2);
  });

  it("has one review per token under way, also after somebody else had it reviewed", async () => {
    const { add, underWay, told, tokens, clock, queue } = setUp();
    add("a", "first");
    queue.learn({ hash: "hash of a", verdict: ACCEPTED, expiresAtMs: Infinity });
    assert.deepEqual(told, ["first: accepted"]);
    add("a", "second");
    assert.deepEqual(tokens(), ["a"]);
    await underWay[0]!.answer(unreachable());
    clock.advance(1_100);
    assert.deepEqual(tokens(), ["a"], "tried again for the second");
    await underWay[0]!.answer(ACCEPTED);
    assert.deepEqual(told, ["first: accepted", "second: accepted"]);
    assert.equal(clock.pendingTimers, 0);
  });

  it("turns everybody away when it stops", async () => {
    const { add, underWay, told, clock, queue } = setUp({ perSecond: 1, burst: 1 });
    add("a");
    add("b");
    queue.stop();
    add("c");
    await underWay[0]!.answer(ACCEPTED);
    assert.deepEqual(
      told,
      ["a", "b", "c"].map((name) => `${name}: 14 the server is stopping`),
    );
    assert.equal(clock.pendingTimers, 0);
  });
});
