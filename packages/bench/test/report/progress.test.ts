import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Progress } from "../../src/report/progress.ts";
import { TWO_PATHS, caseResult } from "../sample-results.ts";

function setup(isTerminal: boolean) {
  const printed: string[] = [];
  const shown: string[] = [];
  let nowMs = 0;
  const progress = new Progress(
    {
      stdout: (text) => printed.push(text),
      terminal: isTerminal ? { write: (text) => shown.push(text), columns: 60 } : undefined,
    },
    () => nowMs,
  );
  const advance = (byMs: number) => {
    nowMs += byMs;
  };
  return { progress, printed, shown, advance };
}

describe("Progress", () => {
  it("shows on a terminal what runs, and for how long, in one line", () => {
    const { progress, shown, advance } = setup(true);
    progress.caseStarted("Bulk download", 0, 3);
    advance(62_000);
    progress.measuring("Node TLS relay", 2, 5);
    assert.equal(shown.at(-1), "\r\x1b[K1:02 [1/3] Bulk download · Node TLS relay · round 2 of 5");
    progress.measuring("a path with a name that is longer than the terminal is wide", 3, 5);
    assert.ok(shown.at(-1)!.length <= "\r\x1b[K".length + 59);
  });

  it("prints tables only where nobody watches", () => {
    const { progress, printed, shown } = setup(false);
    progress.caseStarted("Bulk download", 0, 1);
    progress.measuring("Node TLS relay", 1, 1);
    assert.deepEqual(printed, []);
    progress.caseFinished(caseResult(TWO_PATHS));
    progress.clear();
    assert.match(printed.join(""), /^Bulk download · median of 3 rounds\n/);
    assert.deepEqual(shown, []);
  });
});
