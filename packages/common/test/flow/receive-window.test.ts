import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { ReceiveWindow } from "../../src/flow/receive-window.ts";
import { WindowBudget } from "../../src/flow/window-budget.ts";

const KIB = 1024;
const LIMITS = { initialBytes: 64 * KIB, maxBytes: 1024 * KIB };
const unlimited = () => new WindowBudget(Number.MAX_SAFE_INTEGER);

describe("ReceiveWindow", () => {
  it("gives credit back once a quarter of the window was taken, and not before", () => {
    const window = new ReceiveWindow(LIMITS, unlimited());
    assert.ok(window.receive(20 * KIB));
    assert.equal(window.take(16 * KIB - 1), 0);
    assert.equal(window.take(1), 16 * KIB);
    assert.equal(window.take(4 * KIB), 0);
  });

  it("doubles when the sender ran out of credit and nothing waits here", () => {
    const window = new ReceiveWindow(LIMITS, unlimited());
    window.receive(64 * KIB);
    assert.equal(window.take(64 * KIB), 128 * KIB);
    assert.equal(window.windowBytes, 128 * KIB);
  });

  it("does not grow for a sender that still had credit", () => {
    const window = new ReceiveWindow(LIMITS, unlimited());
    for (let i = 0; i < 100; i++) {
      window.receive(20 * KIB);
      window.take(20 * KIB);
    }
    assert.equal(window.windowBytes, 64 * KIB);
  });

  it("does not grow for a consumer that leaves bytes waiting", () => {
    const window = new ReceiveWindow(LIMITS, unlimited());
    let creditBytes = 64 * KIB;
    for (let i = 0; i < 100; i++) {
      window.receive(creditBytes);
      creditBytes = window.take(window.waitingBytes - 1);
    }
    assert.equal(window.windowBytes, 64 * KIB);
  });

  it("grows no further than its bound, and gives what it took back when it is closed", () => {
    const budget = unlimited();
    const window = new ReceiveWindow(LIMITS, budget);
    let creditBytes = 64 * KIB;
    for (let i = 0; i < 20; i++) {
      window.receive(creditBytes);
      creditBytes = window.take(window.waitingBytes);
    }
    assert.equal(window.windowBytes, LIMITS.maxBytes);
    assert.equal(budget.usedBytes, LIMITS.maxBytes - LIMITS.initialBytes);
    window.close();
    window.close();
    assert.equal(budget.usedBytes, 0);
  });

  it("takes an overrun of one byte for an overrun", () => {
    const window = new ReceiveWindow(LIMITS, unlimited());
    assert.ok(window.receive(64 * KIB));
    assert.ok(!window.receive(1));
  });

  it("never lets more wait than its window, never overruns an honest sender, never stalls it", () => {
    const steps = fc.array(fc.record({ send: fc.nat(200 * KIB), take: fc.nat(200 * KIB) }), {
      maxLength: 200,
    });
    fc.assert(
      fc.property(steps, fc.nat(512 * KIB), (sequence, budgetBytes) => {
        const window = new ReceiveWindow(LIMITS, new WindowBudget(budgetBytes));
        let creditBytes: number = LIMITS.initialBytes;
        for (const { send, take } of sequence) {
          const sent = Math.min(send, creditBytes);
          creditBytes -= sent;
          assert.ok(window.receive(sent));
          assert.ok(window.waitingBytes <= window.windowBytes);
          creditBytes += window.take(Math.min(take, window.waitingBytes));
          assert.ok(creditBytes + window.waitingBytes <= window.windowBytes);
        }
        // Once all is taken there is credit again, so nobody waits for ever.
        creditBytes += window.take(window.waitingBytes);
        assert.ok(creditBytes * 4 > window.windowBytes * 2);
        assert.ok(
          window.windowBytes <= Math.min(LIMITS.maxBytes, LIMITS.initialBytes + budgetBytes),
        );
      }),
      { numRuns: 500 },
    );
  });
});

describe("WindowBudget", () => {
  it("gives out what it has, and no more than the budget it draws on has", () => {
    const process = new WindowBudget(100);
    const tunnel = new WindowBudget(80, process);
    const other = new WindowBudget(80, process);
    assert.equal(tunnel.take(70), 70);
    assert.equal(tunnel.take(70), 10);
    assert.equal(other.take(70), 20);
    tunnel.release(50);
    assert.equal(other.take(70), 50);
    assert.equal(process.usedBytes, 100);
  });
});
