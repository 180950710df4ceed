import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { emptyFinding, handlesFinding, heapFinding } from "../../src/soak/verdict.ts";

const MIB = 1024 * 1024;

describe("the soak's verdict", () => {
  it("is against a heap that is higher in the second half", () => {
    const flat = [10, 12, 10, 11, 10.1, 10, 12, 10].map((each) => each * MIB);
    const rising = [10, 10.2, 10.4, 10.6, 10.8, 11, 11.2, 11.4].map((each) => each * MIB);
    assert.deepEqual(heapFinding("server", flat), {
      ok: true,
      text: "server: heap after gc, median of 8 samples by halves: 10.50 MiB, then 10.05 MiB",
    });
    assert.equal(heapFinding("server", rising).ok, false);
    assert.equal(heapFinding("server", []).ok, false);
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
