import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { settle } from "../../src/run/settle.ts";

/** How long is waited for processes that use `seconds` in one interval after the other, and then nothing. */
async function waitedFor(seconds: readonly number[]): Promise<number> {
  let waitedMs = 0;
  let used = 10;
  const left = [...seconds];
  await settle(
    () => used,
    (ms) => {
      waitedMs += ms;
      used += left.shift() ?? 0;
      return Promise.resolve();
    },
  );
  return waitedMs;
}

describe("what was measured before", () => {
  it("is waited for until it is at rest", async () => {
    assert.equal(await waitedFor([]), 100);
    assert.equal(await waitedFor([0.15, 0.02, 0.01]), 400);
  });

  it("is at rest with little to do", async () => {
    assert.equal(await waitedFor([0.004, 0.1]), 100);
  });

  it("is not waited for longer than three seconds", async () => {
    assert.equal(await waitedFor(Array.from({ length: 100 }, () => 0.1)), 3_000);
  });
});
