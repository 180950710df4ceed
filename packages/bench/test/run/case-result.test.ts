import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { summarizeRows } from "../../src/run/case-result.ts";
import { METRICS, TWO_PATHS, sample } from "../sample-results.ts";

describe("summarizeRows", () => {
  it("compares within a round, so that a slow round changes no ratio", () => {
    const [, reachback] = summarizeRows(METRICS, TWO_PATHS, "relay");
    assert.deepEqual(reachback?.summaries["rate"], {
      median: 816,
      min: 450,
      max: 900,
      ratio: { median: 0.9, min: 0.8, max: 0.9 },
    });
  });

  it("leaves out rounds that failed, on either side", () => {
    const rows = summarizeRows(
      METRICS,
      [
        {
          id: "relay",
          title: "relay",
          samples: [sample({ rate: 10 }), undefined, sample({ rate: 10 })],
          failures: ["lost"],
        },
        {
          id: "openssh",
          title: "ssh",
          samples: [undefined, sample({ rate: 1_000 }), sample({ rate: 20 })],
          failures: ["lost"],
        },
      ],
      "relay",
    );
    assert.deepEqual(rows[1]?.summaries["rate"], {
      median: 510,
      min: 20,
      max: 1_000,
      ratio: { median: 2, min: 2, max: 2 },
    });
  });

  it("has no ratio without a reference, or to one that is zero", () => {
    const alone = summarizeRows(METRICS, TWO_PATHS.slice(1), "relay");
    assert.equal(alone[0]?.summaries["rate"]?.ratio, undefined);
    const [, reachback] = summarizeRows(METRICS, TWO_PATHS, "relay");
    assert.equal(reachback?.summaries["failed"]?.ratio, undefined);
  });

  it("says nothing of what nobody measured", () => {
    const rows = summarizeRows(METRICS, [{ ...TWO_PATHS[0]!, samples: [sample({})] }], "relay");
    assert.deepEqual(rows[0]?.summaries, {});
  });
});
