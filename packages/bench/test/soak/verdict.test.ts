import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { emptyFinding, growthText, handlesFinding, heapFinding } from "../../src/soak/verdict.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

describe("the soak's verdict", () => {
  const samplesOf = (heapsMib: readonly number[], codesMib = heapsMib.map(() => 4)) =>
    heapsMib.map((heap, index) => ({
      programBytes: heap * MIB,
      totalBytes: (heap + codesMib[index]!) * MIB,
      connections: index * 4_500,
    }));

  it("is against a heap that is higher in the second half", () => {
    assert.deepEqual(heapFinding("server", samplesOf([8, 8.1, 9, 8.1, 8, 8.2, 8.3])), {
      ok: true,
      text: "server: heap after gc, medians of 3 and 4 rests: 8.10 MiB, then 8.15 MiB; with V8's code 12.10 MiB, then 12.15 MiB",
    });
    assert.deepEqual(heapFinding("server", samplesOf([8, 8.3, 8.6, 8.9, 9.2, 9.5])), {
      ok: false,
      text: "server: heap after gc, medians of 3 and 3 rests: 8.30 MiB, then 9.20 MiB; with V8's code 12.30 MiB, then 13.20 MiB. 128 KiB more are allowed, but these are 922 KiB, 70 bytes for each connection",
    });
    assert.equal(heapFinding("server", []).ok, false);
  });

  it("is not against code that is compiled later", () => {
    const samples = samplesOf([8, 8, 8, 8, 8, 8], [3, 3.4, 3.8, 4.2, 4.6, 5]);
    assert.equal(heapFinding("server", samples).ok, true);
  });

  it("says what a heap has more of, the five that are most", () => {
    const growth = ["A", "B", "C", "D", "E", "F"].map(
      (kind, index) => [kind, { count: 10 - index, bytes: (6 - index) * KIB }] as const,
    );
    assert.equal(
      growthText(growth),
      "From the first rest to the last, more of: 10 A (6 KiB), 9 B (5 KiB), 8 C (4 KiB), 7 D (3 KiB), 6 E (2 KiB)",
    );
  });

  it("is against handles that were not there before, or are no more", () => {
    const before = { TCPServerWrap: 2, TLSWrap: 3 };
    assert.equal(handlesFinding("agent", before, { ...before }).ok, true);
    assert.deepEqual(handlesFinding("agent", before, { ...before, TLSWrap: 4 }), {
      ok: false,
      text: 'agent: handles at the end {"TCPServerWrap":2,"TLSWrap":4}, before {"TCPServerWrap":2,"TLSWrap":3}',
    });
    assert.equal(handlesFinding("agent", before, { TCPServerWrap: 2 }).ok, false);
  });

  it("is against whatever is left", () => {
    assert.deepEqual(emptyFinding("server", { dials: 0, connections: 0 }), {
      ok: true,
      text: "server: no dials, connections",
    });
    assert.deepEqual(emptyFinding("server", { dials: 2, connections: 0 }), {
      ok: false,
      text: "server: left are 2 dials",
    });
  });
});
