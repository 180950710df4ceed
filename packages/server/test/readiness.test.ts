import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import type { ProxyStrategy } from "../src/options/proxy-strategies.ts";
import type { ReadyStrategies } from "../src/options/ready-strategies.ts";
import { serverReadinessChecks } from "../src/readiness.ts";

type Counts = readonly (readonly [ProxyStrategy, number])[];

/** What fails, by the check's name. */
function failures(counts: Counts, required: ReadyStrategies, isStopping = false) {
  const checks = serverReadinessChecks(
    {
      isStopping: () => isStopping,
      keyCounts: () => new Map(counts),
      required,
      certificates: () => new Map(),
      lastDialAtMs: () => undefined,
    },
    new ManualClock(),
  );
  return Object.fromEntries(
    checks.flatMap(({ name, run }) => {
      const { ok, detail } = run();
      return ok ? [] : [[name, detail]];
    }),
  );
}

const NO_AGENT = "no connection to any proxy agent";

describe("a server's readiness", () => {
  const rows: readonly (readonly [Counts, Record<ReadyStrategies, Record<string, string>>])[] = [
    [
      [["default", 0]],
      {
        first: { "strategy-default": NO_AGENT },
        any: { "strategy-default": NO_AGENT },
        all: { "strategy-default": NO_AGENT },
      },
    ],
    [[["default", 1]], { first: {}, any: {}, all: {} }],
    [
      [
        ["destHost", 2],
        ["defaultRoute", 0],
      ],
      {
        first: {},
        any: {},
        all: { "strategy-defaultRoute": "no agents for strategy defaultRoute" },
      },
    ],
    [
      [
        ["destHost", 0],
        ["default", 1],
      ],
      {
        first: { "strategy-destHost": "no identifiers of agents for strategy destHost" },
        any: {},
        all: { "strategy-destHost": "no identifiers of agents for strategy destHost" },
      },
    ],
  ];
  for (const [counts, expected] of rows) {
    for (const required of ["first", "any", "all"] as const) {
      const name = counts.map(([strategy, count]) => `${strategy} ${count}`).join(", ");
      it(`with ${name} and --ready-strategies=${required} is as documented`, () => {
        assert.deepEqual(failures(counts, required), expected[required]);
      });
    }
  }

  it("ends when the server stops", () => {
    assert.deepEqual(failures([["default", 1]], "first", true), {
      shutdown: "the server is stopping",
    });
  });

  it("has a line for each thing", () => {
    const checks = serverReadinessChecks(
      {
        isStopping: () => false,
        keyCounts: () =>
          new Map([
            ["destHost", 3],
            ["default", 0],
          ]),
        required: "first",
        certificates: () => new Map(),
        lastDialAtMs: () => 0,
      },
      new ManualClock(),
    );
    assert.deepEqual(
      checks.map(({ name, run }) => [name, run().detail]),
      [
        ["shutdown", ""],
        ["strategy-destHost", "3 identifiers of agents"],
        ["strategy-default", "no agents, and not needed (--ready-strategies)"],
        ["certificates", "none in use"],
        ["last-good-dial", "0 s ago"],
      ],
    );
  });
});
