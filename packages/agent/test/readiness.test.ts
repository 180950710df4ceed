import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import { agentReadinessChecks } from "../src/readiness.ts";

const NONE = "no servers connected";

describe("an agent's readiness", () => {
  /** Tunnels, servers connected, servers known; then what is said with each threshold if it fails. */
  const rows: readonly (readonly [
    counts: readonly [number, number, number],
    expected: Record<"one" | "two" | "all", string>,
  ])[] = [
    [[0, 0, 1], { one: NONE, two: NONE, all: NONE }],
    [
      [1, 1, 3],
      {
        one: "",
        two: "1 of 3, needed are 2 (--ready-min-servers)",
        all: "1 of 3, needed are all (--ready-min-servers)",
      },
    ],
    [[2, 2, 3], { one: "", two: "", all: "2 of 3, needed are all (--ready-min-servers)" }],
    [[3, 3, 3], { one: "", two: "", all: "" }],
    // A single server takes its leave: its tunnel still serves.
    [
      [1, 0, 1],
      {
        one: "",
        two: "0 of 1, needed are 2 (--ready-min-servers)",
        all: "",
      },
    ],
  ];
  for (const [[tunnelCount, connectedCount, serverCount], expected] of rows) {
    for (const [threshold, minServers] of [
      ["one", 1],
      ["two", 2],
      ["all", "all"],
    ] as const) {
      it(`with ${connectedCount} of ${serverCount} servers and ${threshold} needed is as documented`, () => {
        const [connected] = agentReadinessChecks(
          {
            minServers,
            servers: { tunnelCount, connectedCount, serverCount },
            certificate: () => undefined,
            lastDialAtMs: () => undefined,
          },
          new ManualClock(),
        );
        const { ok, detail } = connected!.run();
        assert.equal(ok ? "" : detail, expected[threshold]);
        if (ok) assert.equal(detail, `${connectedCount} of ${serverCount}`);
      });
    }
  }
});
