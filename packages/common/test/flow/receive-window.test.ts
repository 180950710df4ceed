import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { ReceiveWindow } from "../../src/flow/receive-window.ts";
import { WindowBudget } from "../../src/flow/window-budget.ts";

const KIB = 1024;
const LIMITS = { initialBytes: 64 * KIB, maxBytes: 1024 * KIB };
const unlimited = () => new WindowBudget(Number.MAX_SAFE_INTEGER);

/** The size of the only window that draws on `budget`. */
const sizeBy = (budget: WindowBudget) => LIMITS.initialBytes + budget.usedBytes;

describe("ReceiveWindow", () => {
  it("gives credit back once half of the window was taken, and not before", () => {
    const window = new ReceiveWindow(LIMITS, unlimited(), new ManualClock());
    assert.ok(window.receive(40 * KIB));
    assert.equal(window.take(32 * KIB - 1), 0);
    assert.equal(window.take(1), 32 * KIB);
    assert.equal(window.take(8 * KIB), 0);
  });

  it("gives a sender that has stopped what is an eighth of the window, too, and not less", () => {
    const limits = { initialBytes: 64 * KIB, maxBytes: 64 * KIB };
    for (const { firstKib, creditKib } of [
      { firstKib: 40, creditKib: 24 },
      { firstKib: 56, creditKib: 8 },
      { firstKib: 57, creditKib: 0 },
    ]) {
      const window = new ReceiveWindow(limits, unlimited(), new ManualClock());
      window.receive(firstKib * KIB);
      assert.equal(window.take(firstKib * KIB), firstKib * KIB);
      window.receive((64 - firstKib) * KIB - 1);
      assert.equal(window.take((64 - firstKib) * KIB - 1), 0);
      window.receive(1);
      assert.equal(window.take(1), creditKib * KIB);
    }
  });

  it("lets a sender have seven eighths of the window under way, whatever it sent first", () => {
    const windowBytes = 64 * KIB;
    const limits = { initialBytes: windowBytes, maxBytes: windowBytes };
    fc.assert(
      fc.property(fc.integer({ min: 1, max: windowBytes }), (firstBytes) => {
        const window = new ReceiveWindow(limits, unlimited(), new ManualClock());
        /** One round trip: so much arrives in small pieces, each taken at once. Returns the credit. */
        const roundTrip = (bytes: number): number => {
          let creditBytes = 0;
          for (let at = 0; at < bytes; at += KIB) {
            const piece = Math.min(KIB, bytes - at);
            assert.ok(window.receive(piece));
            creditBytes += window.take(piece);
          }
          return creditBytes;
        };
        let sendableBytes = windowBytes - firstBytes + roundTrip(firstBytes);
        let sentBytes = 0;
        for (let i = 0; i < 10; i++) {
          sentBytes += sendableBytes;
          sendableBytes = roundTrip(sendableBytes);
        }
        assert.ok(sentBytes >= (10 * windowBytes * 7) / 8, `${sentBytes}`);
      }),
    );
  });

  it("doubles when the sender ran out of credit and nothing waits here", () => {
    const budget = unlimited();
    const window = new ReceiveWindow(LIMITS, budget, new ManualClock());
    window.receive(64 * KIB);
    assert.equal(window.take(64 * KIB), 128 * KIB);
    assert.equal(sizeBy(budget), 128 * KIB);
  });

  it("does not grow for a sender that still had credit", () => {
    const budget = unlimited();
    const window = new ReceiveWindow(LIMITS, budget, new ManualClock());
    for (let i = 0; i < 100; i++) {
      window.receive(20 * KIB);
      window.take(20 * KIB);
    }
    assert.equal(sizeBy(budget), 64 * KIB);
  });

  it("does not grow for a consumer that leaves bytes waiting", () => {
    const budget = unlimited();
    const window = new ReceiveWindow(LIMITS, budget, new ManualClock());
    let creditBytes = 64 * KIB;
    for (let i = 0; i < 100; i++) {
      window.receive(creditBytes);
      creditBytes = window.take(window.waitingBytes - 1);
    }
    assert.equal(sizeBy(budget), 64 * KIB);
  });

  it("grows no further than its bound, and gives what it took back when it is closed", () => {
    const budget = unlimited();
    const window = new ReceiveWindow(LIMITS, budget, new ManualClock());
    let creditBytes = 64 * KIB;
    for (let i = 0; i < 20; i++) {
      window.receive(creditBytes);
      creditBytes = window.take(window.waitingBytes);
    }
    assert.equal(budget.usedBytes, LIMITS.maxBytes - LIMITS.initialBytes);
    window.close();
    window.close();
    assert.equal(budget.usedBytes, 0);
  });

  for (const { othersKib, expectedKib } of [
    { othersKib: 0, expectedKib: 2048 },
    { othersKib: 1536, expectedKib: 1024 },
    { othersKib: 2048, expectedKib: 512 },
  ]) {
    it(`grows to ${expectedKib} KiB for a busy machine where others of the tunnel grew by ${othersKib} KiB`, () => {
      const budget = unlimited();
      budget.take(othersKib * KIB);
      const clock = new ManualClock();
      const limits = { ...LIMITS, maxBytes: 64 * 1024 * KIB };
      const window = new ReceiveWindow(limits, budget, clock);
      let creditBytes = limits.initialBytes;
      for (let i = 0; i < 20; i++) {
        // The line is much quicker than a window is filled.
        clock.advance(1);
        window.receive(1);
        clock.advance(10);
        window.receive(creditBytes - 1);
        creditBytes = window.take(creditBytes);
      }
      assert.equal(sizeBy(budget), (othersKib + expectedKib) * KIB);
    });
  }

  describe("where windows of the tunnel had grown by 6 MiB before", () => {
    const limits = { initialBytes: 64 * KIB, maxBytes: 64 * 1024 * KIB };
    /** Sizes of a window after each of the first `count` times that it lies idle; a round trip takes 10 ms. */
    function growth(budget: WindowBudget, count: number, fillMs = 9): number[] {
      const clock = new ManualClock();
      const window = new ReceiveWindow(limits, budget, clock);
      const usedBytes = budget.usedBytes;
      let creditBytes = limits.initialBytes;
      return Array.from({ length: count }, () => {
        clock.advance(10);
        window.receive(1);
        clock.advance(fillMs);
        window.receive(creditBytes - 1);
        creditBytes = window.take(creditBytes);
        return (limits.initialBytes + budget.usedBytes - usedBytes) / KIB;
      });
    }
    function knowingBudget(): WindowBudget {
      const budget = unlimited();
      budget.release(budget.take(6144 * KIB));
      return budget;
    }

    it("grows eightfold at once, up to half of that, and is doubled then", () => {
      const sizes = growth(knowingBudget(), 3);
      assert.deepEqual(sizes, [512, 3072 + 64, 2 * (3072 + 64)]);
    });

    it("is doubled where it takes two round trips to fill it", () => {
      // Of the first window nobody knows, as there has been no round trip.
      assert.deepEqual(growth(knowingBudget(), 3, 10), [512, 1024, 2048]);
    });

    it("is doubled while others of the tunnel have taken that half", () => {
      const budget = knowingBudget();
      budget.take(3072 * KIB);
      assert.deepEqual(growth(budget, 3), [128, 256, 512]);
    });

    it("does not grow before it lies idle", () => {
      const budget = knowingBudget();
      const window = new ReceiveWindow(limits, budget, new ManualClock());
      window.receive(64 * KIB - 1);
      assert.equal(window.take(64 * KIB - 1), 64 * KIB - 1);
      assert.equal(budget.usedBytes, 0);
    });

    it("grows no further than its bound", () => {
      const budget = knowingBudget();
      const window = new ReceiveWindow(
        { ...limits, maxBytes: 200 * KIB },
        budget,
        new ManualClock(),
      );
      window.receive(64 * KIB);
      assert.equal(window.take(64 * KIB), 200 * KIB);
      assert.equal(budget.usedBytes, 136 * KIB);
    });
  });

  it("takes an overrun of one byte for an overrun, which nobody has to take", () => {
    const window = new ReceiveWindow(LIMITS, unlimited(), new ManualClock());
    assert.ok(window.receive(64 * KIB));
    assert.ok(!window.receive(1));
    assert.equal(window.waitingBytes, 64 * KIB);
  });

  it("never lets more wait than its window, never overruns an honest sender, never stalls it", () => {
    const steps = fc.array(fc.record({ send: fc.nat(200 * KIB), take: fc.nat(200 * KIB) }), {
      maxLength: 200,
    });
    fc.assert(
      fc.property(steps, fc.nat(512 * KIB), (sequence, budgetBytes) => {
        const budget = new WindowBudget(budgetBytes);
        const window = new ReceiveWindow(LIMITS, budget, new ManualClock());
        let creditBytes: number = LIMITS.initialBytes;
        for (const { send, take } of sequence) {
          const sent = Math.min(send, creditBytes);
          creditBytes -= sent;
          assert.ok(window.receive(sent));
          assert.ok(window.waitingBytes <= sizeBy(budget));
          creditBytes += window.take(Math.min(take, window.waitingBytes));
          assert.ok(creditBytes + window.waitingBytes <= sizeBy(budget));
        }
        // Once all is taken there is credit again, so nobody waits for ever.
        creditBytes += window.take(window.waitingBytes);
        assert.ok(creditBytes * 4 > sizeBy(budget) * 2);
        assert.ok(sizeBy(budget) <= Math.min(LIMITS.maxBytes, LIMITS.initialBytes + budgetBytes));
      }),
      { numRuns: 500 },
    );
  });
});

interface Route {
  readonly bytesPerMs: number;
  readonly roundTripMs: number;
  /** What the consumer takes; Infinity: all at once. */
  readonly takenPerMs: number;
  readonly maxBytes?: number;
  /** The receiver's machine does something else for 20 ms in each 100. */
  readonly isBusy?: boolean;
}

/** A sender that always has something, behind a line with a delay; 30 simulated seconds. */
function transfer(route: Route) {
  const { bytesPerMs, roundTripMs, takenPerMs, maxBytes = 16 * 1024 * KIB, isBusy = false } = route;
  const DURATION_MS = 30_000;
  const budget = unlimited();
  const clock = new ManualClock();
  const window = new ReceiveWindow({ initialBytes: 64 * KIB, maxBytes }, budget, clock);
  // What is on its way, by the millisecond of its arrival.
  const data = new Array<number>(DURATION_MS).fill(0);
  const credit = new Array<number>(DURATION_MS).fill(0);
  const oneWayMs = roundTripMs / 2;
  let creditBytes = 64 * KIB;
  let takenBytes = 0;
  let takenInSecondHalf = 0;
  let mostCreditBytes = 0;
  for (let nowMs = 0; nowMs < DURATION_MS - oneWayMs; nowMs++) {
    clock.advance(1);
    creditBytes += credit[nowMs]!;
    const sent = Math.min(bytesPerMs, creditBytes);
    creditBytes -= sent;
    data[nowMs + oneWayMs]! += sent;

    if (isBusy && nowMs % 100 < 20) {
      data[nowMs + 1]! += data[nowMs]!;
      continue;
    }
    const arrived = data[nowMs]!;
    if (arrived > 0) assert.ok(window.receive(arrived), "an overrun");
    const taken = Math.min(takenPerMs, window.waitingBytes);
    if (taken === 0) continue;
    takenBytes += taken;
    if (nowMs >= DURATION_MS / 2) takenInSecondHalf += taken;
    const granted = window.take(taken);
    mostCreditBytes = Math.max(mostCreditBytes, granted);
    credit[nowMs + oneWayMs]! += granted;
  }
  const ratePerMs = takenInSecondHalf / (DURATION_MS / 2);
  return { windowBytes: sizeBy(budget), ratePerMs, takenBytes, mostCreditBytes };
}

describe("a receive window, behind a line with a delay", () => {
  for (const roundTripMs of [2, 10, 50, 200]) {
    it(`grows to what a round trip of ${roundTripMs} ms needs, and not far beyond`, () => {
      const bytesPerMs = 20 * KIB;
      const { windowBytes, ratePerMs } = transfer({
        bytesPerMs,
        roundTripMs,
        takenPerMs: Infinity,
      });
      const productBytes = bytesPerMs * roundTripMs;
      assert.ok(ratePerMs >= 0.9 * bytesPerMs, `${ratePerMs} of ${bytesPerMs} bytes per ms`);
      assert.ok(windowBytes <= Math.max(64 * KIB, 4 * productBytes), `a window of ${windowBytes}`);
    });
  }

  it("does not take the pauses of a busy machine for a line that needs more", () => {
    const bytesPerMs = 512 * KIB;
    const roundTripMs = 2;
    const { windowBytes, ratePerMs } = transfer({
      bytesPerMs,
      roundTripMs,
      takenPerMs: Infinity,
      isBusy: true,
    });
    assert.ok(windowBytes <= 4 * bytesPerMs * roundTripMs, `a window of ${windowBytes}`);
    assert.ok(ratePerMs >= 0.6 * bytesPerMs, `${ratePerMs} of ${bytesPerMs} bytes per ms`);
  });

  it("stays as it was for a consumer that is slower than it allows", () => {
    const { windowBytes, ratePerMs } = transfer({
      bytesPerMs: 20 * KIB,
      roundTripMs: 10,
      takenPerMs: 2 * KIB,
    });
    assert.equal(windowBytes, 64 * KIB);
    assert.ok(ratePerMs >= 0.99 * 2 * KIB);
  });

  it("grows for a slow consumer no further than its own rate needs", () => {
    const roundTripMs = 200;
    const takenPerMs = 2 * KIB;
    const { windowBytes, ratePerMs } = transfer({ bytesPerMs: 20 * KIB, roundTripMs, takenPerMs });
    assert.ok(ratePerMs >= 0.9 * takenPerMs, `${ratePerMs} of ${takenPerMs} bytes per ms`);
    assert.ok(windowBytes <= 4 * roundTripMs * takenPerMs, `a window of ${windowBytes}`);
  });

  it("gives credit in steps of at most 2 MiB, however large it is", () => {
    const { windowBytes, mostCreditBytes } = transfer({
      bytesPerMs: 64 * KIB,
      roundTripMs: 200,
      takenPerMs: 64 * KIB,
    });
    assert.ok(windowBytes > 4096 * KIB);
    // A step is given once it is due, together with what was taken in the same moment.
    assert.ok(mostCreditBytes <= (2048 + 64) * KIB + windowBytes / 2, `${mostCreditBytes}`);
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

  it("knows the most that was taken at once, until a spell has done with half of it or more", () => {
    const budget = new WindowBudget(1000);
    assert.equal(budget.peakBytes, 0);
    budget.take(300);
    budget.release(100);
    budget.take(200);
    budget.take(50);
    assert.equal(budget.peakBytes, 450);
    budget.release(450);
    assert.equal(budget.peakBytes, 450);

    budget.release(budget.take(224));
    assert.equal(budget.peakBytes, 450, "half was not needed");
    budget.take(225);
    assert.equal(budget.peakBytes, 450, "more may yet be needed");
    budget.release(225);
    assert.equal(budget.peakBytes, 225);
    budget.take(500);
    assert.equal(budget.peakBytes, 500);
  });
});
