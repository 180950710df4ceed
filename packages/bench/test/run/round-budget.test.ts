import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RoundBudget } from "../../src/run/round-budget.ts";

describe("RoundBudget", () => {
  it("allows everything when there is no limit", () => {
    const budget = new RoundBudget(undefined, 1, 0);
    budget.caseStarted(0);
    assert.ok(budget.allowsRound(1_000, 1e9));
  });

  it("allows a first round even when the time is over", () => {
    const budget = new RoundBudget(100, 2, 0);
    budget.caseStarted(500);
    assert.ok(budget.allowsRound(0, 500));
    assert.ok(!budget.allowsRound(1, 501));
  });

  it("ends a case when another round like the last ones would not fit its share", () => {
    const budget = new RoundBudget(100, 2, 0);
    budget.caseStarted(0);
    // 50 ms for each of two cases; rounds of 20 ms.
    assert.ok(budget.allowsRound(1, 20));
    assert.ok(!budget.allowsRound(2, 40));
  });

  it("gives the time that a case has left to the others", () => {
    const budget = new RoundBudget(100, 2, 0);
    budget.caseStarted(0);
    budget.caseStarted(10);
    assert.ok(budget.allowsRound(2, 70));
    assert.ok(!budget.allowsRound(2, 90));
  });
});
