/**
 * Shares the time of a run among its cases: a case gets one round in any case, and more while its
 * share lasts. What one case leaves, the others have.
 */
export class RoundBudget {
  readonly #endsAtMs: number;
  #casesLeft: number;
  #caseStartedAtMs = 0;
  #caseEndsAtMs = Infinity;

  /** @param budgetMs - `undefined` for no limit. */
  constructor(budgetMs: number | undefined, caseCount: number, nowMs: number) {
    this.#endsAtMs = budgetMs === undefined ? Infinity : nowMs + budgetMs;
    this.#casesLeft = caseCount;
  }

  caseStarted(nowMs: number): void {
    this.#caseStartedAtMs = nowMs;
    this.#caseEndsAtMs = nowMs + Math.max(0, this.#endsAtMs - nowMs) / this.#casesLeft;
    this.#casesLeft--;
  }

  /** Whether another round fits, if it takes as long as the `done` before it did. */
  allowsRound(done: number, nowMs: number): boolean {
    if (done === 0) return true;
    const roundMs = (nowMs - this.#caseStartedAtMs) / done;
    return nowMs + roundMs <= this.#caseEndsAtMs;
  }
}
