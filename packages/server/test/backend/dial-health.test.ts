import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import { DialHealth } from "../../src/backend/dial-health.ts";

function setup() {
  const clock = new ManualClock(0);
  clock.advance(1_000);
  const health = new DialHealth(clock);
  /** A dial that is asked for now and has no answer after six seconds. */
  const letDialPass = () => {
    const askedAtMs = clock.now();
    clock.advance(6_000);
    health.unanswered(askedAtMs);
  };
  return { clock, health, letDialPass };
}

describe("the health of a tunnel's dials", () => {
  it("is on trial after a probation that doubles with each failure, up to a minute", () => {
    const { clock, health, letDialPass } = setup();
    for (const probationMs of [5_000, 10_000, 20_000, 40_000, 60_000, 60_000]) {
      letDialPass();
      clock.advance(probationMs - 1);
      assert.equal(health.state, "failing");
      clock.advance(1);
      assert.equal(health.state, "trial");
    }
    health.answered();
    assert.equal(health.state, "sound");
    letDialPass();
    clock.advance(5_000);
    assert.equal(health.state, "trial", "an answer makes up for all");
  });

  it("is on trial at once after a late answer, and still as bad if that fails", () => {
    const { clock, health, letDialPass } = setup();
    letDialPass();
    health.answeredLate();
    assert.equal(health.state, "trial");
    clock.advance(1);
    letDialPass();
    clock.advance(9_999);
    assert.equal(health.state, "failing");
  });

  it("counts dials that were under way together as one failure", () => {
    const { clock, health } = setup();
    const askedAtMs = clock.now();
    clock.advance(6_000);
    for (let i = 0; i < 50; i++) health.unanswered(askedAtMs);
    clock.advance(1_000);
    health.unanswered(askedAtMs + 1_000);
    clock.advance(4_000);
    assert.equal(health.state, "trial");
  });

  it("stays sound while other dials are answered: then it may be the endpoint", () => {
    const { clock, health } = setup();
    const askedAtMs = clock.now();
    clock.advance(1_000);
    health.answered();
    clock.advance(5_000);
    health.unanswered(askedAtMs);
    assert.equal(health.state, "sound");
    assert.equal(health.recentFailures, 1);
  });

  it("forgets failures within seconds, however many", () => {
    const { clock, health } = setup();
    health.dropped();
    assert.equal(health.recentFailures, 1);
    clock.advance(5_000);
    assert.equal(health.recentFailures, 0);
    for (let i = 0; i < 1_000; i++) health.dropped();
    assert.equal(health.recentFailures, 8);
    clock.advance(5_000);
    assert.equal(health.recentFailures, 4);
    clock.advance(15_000);
    assert.equal(health.recentFailures, 0);
    assert.equal(health.state, "sound", "it has answered, in its way");
  });
});
