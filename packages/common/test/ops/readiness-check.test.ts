import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { certificateCheck, lastDialCheck } from "../../src/ops/readiness-check.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import type { CertificateFacts } from "../../src/tls/certificate-facts.ts";

const DAY_MS = 86_400_000;
const NOW_MS = Date.UTC(2025, 0, 10);

function facts(notBeforeAtMs: number, notAfterAtMs: number): CertificateFacts {
  const text = (timeMs: number) => new Date(timeMs).toISOString().replace(".000Z", "Z");
  return {
    subject: "CN=a",
    issuer: "CN=ca",
    serial: "01",
    notBefore: text(notBeforeAtMs),
    notAfter: text(notAfterAtMs),
    notBeforeAtMs,
    notAfterAtMs,
  };
}

describe("the check of certificates", () => {
  it("names those that are not valid, and otherwise how long they are", () => {
    const clock = new ManualClock(NOW_MS);
    const { run } = certificateCheck(
      () =>
        new Map([
          ["agents", facts(NOW_MS - DAY_MS, NOW_MS + 3 * DAY_MS)],
          ["frontend", facts(NOW_MS - DAY_MS, NOW_MS + DAY_MS)],
        ]),
      clock,
    );
    assert.deepEqual(run(), { ok: true, detail: "agents: 3 days left; frontend: 1 days left" });
    clock.advance(2 * DAY_MS);
    assert.deepEqual(run(), {
      ok: false,
      detail:
        "frontend: x509: certificate has expired or is not yet valid: current time 2025-01-12T00:00:00Z is after 2025-01-11T00:00:00Z",
    });
  });

  it("passes without any", () => {
    const { run } = certificateCheck(() => new Map(), new ManualClock());
    assert.deepEqual(run(), { ok: true, detail: "none in use" });
  });
});

describe("the check of the last good dial", () => {
  it("says how long ago it was, and never fails", () => {
    const clock = new ManualClock();
    const dialsMs: number[] = [];
    const { run } = lastDialCheck(() => dialsMs.at(-1), clock);
    assert.deepEqual(run(), { ok: true, detail: "none yet" });
    dialsMs.push(clock.now());
    clock.advance(61_999);
    assert.deepEqual(run(), { ok: true, detail: "61 s ago" });
  });
});
