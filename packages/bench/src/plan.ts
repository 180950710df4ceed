const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

/** How much of everything a run does. */
export interface Plan {
  readonly rounds: number;
  /** Rounds end early when the run would take longer; `undefined` for no such limit. */
  readonly budgetMs: number | undefined;

  /** Bytes of one bulk transfer, over all its connections together. */
  readonly bulkBytes: number;
  /** When a bulk transfer is cut off and judged by what it has done. */
  readonly bulkLimitMs: number;
  readonly bulkConnections: readonly number[];

  readonly echoConnections: readonly number[];
  readonly echoMs: number;

  readonly dialsMs: number;
  readonly idleConnections: number;
  readonly idleSettleMs: number;
  readonly idleRounds: number;

  /** Each of: without and with the stalled reader. */
  readonly stalledMs: number;
  readonly stalledRounds: number;

  /** Each of: bulk alone, echo alone, both. There are some 30 dials in a second: of 3 s, the slowest is the p99. */
  readonly besideMs: number;
  readonly besideRounds: number;

  /** Round trips that the delay relay adds. */
  readonly delaysMs: readonly number[];
  readonly delayRounds: number;

  /** Before anything counts, on every path. */
  readonly warmUpBytes: number;
  readonly warmUpMs: number;
}

export const FULL_PLAN: Plan = {
  rounds: 5,
  budgetMs: undefined,
  bulkBytes: GIB,
  bulkLimitMs: 30_000,
  bulkConnections: [1, 8],
  echoConnections: [1, 32, 256],
  echoMs: 3_000,
  dialsMs: 3_000,
  idleConnections: 5_000,
  idleSettleMs: 2_000,
  idleRounds: 3,
  stalledMs: 3_000,
  stalledRounds: 3,
  besideMs: 8_000,
  besideRounds: 3,
  delaysMs: [10, 50],
  delayRounds: 3,
  warmUpBytes: 512 * MIB,
  warmUpMs: 300,
};

/** A plan for under two minutes. */
export const QUICK_PLAN: Plan = {
  ...FULL_PLAN,
  rounds: 3,
  budgetMs: 75_000,
  bulkBytes: 192 * MIB,
  bulkLimitMs: 5_000,
  echoConnections: [1, 32],
  echoMs: 700,
  dialsMs: 700,
  idleConnections: 1_000,
  idleSettleMs: 500,
  idleRounds: 1,
  stalledMs: 700,
  stalledRounds: 1,
  besideMs: 1_000,
  besideRounds: 1,
  delaysMs: [10],
  delayRounds: 1,
  warmUpBytes: 24 * MIB,
  warmUpMs: 100,
};

/** The same with less (or more) of everything but rounds and connections at once. */
export function scaledPlan(plan: Plan, factor: number): Plan {
  const bytes = (value: number) => Math.max(1 * MIB, Math.round(value * factor));
  const ms = (value: number) => Math.max(50, Math.round(value * factor));
  return {
    ...plan,
    bulkBytes: bytes(plan.bulkBytes),
    echoMs: ms(plan.echoMs),
    dialsMs: ms(plan.dialsMs),
    idleConnections: Math.max(10, Math.round(plan.idleConnections * factor)),
    idleSettleMs: ms(plan.idleSettleMs),
    stalledMs: ms(plan.stalledMs),
    besideMs: ms(plan.besideMs),
    warmUpBytes: bytes(plan.warmUpBytes),
    warmUpMs: ms(plan.warmUpMs),
  };
}
