import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { TURN_BYTES } from "../../src/flow/round-robin.ts";
import { PIECE_BYTES } from "../../src/piece-bytes.ts";
import { SeededRandom } from "../../src/testing/seeded-random.ts";
import { finish, KIB, LIMITS, recordingTunnel } from "./flow-setup.ts";
import { simulatedLine } from "./simulated-line.ts";

describe("two tunnel ends joined by a line with little room", () => {
  const totals = fc.array(fc.tuple(fc.nat(1024 * KIB), fc.nat(1024 * KIB)), {
    minLength: 1,
    maxLength: 5,
  });

  for (const hasCredit of [true, false]) {
    it(`${hasCredit ? "with" : "without"} credit: all arrives, in order, within the bounds`, () => {
      fc.assert(
        fc.property(totals, fc.nat(2048 * KIB), fc.nat(), (bytes, budgetBytes, seed) => {
          const { clock, budgets, ends } = simulatedLine(hasCredit, bytes, budgetBytes);
          const random = new SeededRandom(seed);
          const upTo = (max: number) => Math.floor(random.fraction() * (max + 1));
          const all = ends.flatMap(({ parties }) => parties);
          const isDone = () => all.every(({ isFinished }) => isFinished);
          // Many more than it takes, unless somebody starves.
          let steps = 0;
          for (; !isDone() && steps < 20_000; steps++) {
            const end = ends[upTo(1)]!;
            const party = end.parties[upTo(end.parties.length - 1)]!;
            const action = upTo(2);
            if (action === 0) party.offer(upTo(PIECE_BYTES));
            else if (action === 1) party.take(upTo(200 * KIB));
            else end.line.deliver(upTo(8));
          }
          assert.ok(isDone(), "something never arrived");
          all.forEach((party, index) => {
            const from = all[(index + bytes.length) % all.length]!;
            assert.equal(party.receivedBytes, from.totalBytes);
          });
          for (const { usedBytes } of budgets) assert.ok(usedBytes <= budgetBytes);
          for (const { flow } of all) flow.close();
          for (const { flows, line } of ends) {
            while (!line.isEmpty) line.deliver(1);
            assert.ok(flows.isClear);
            assert.ok(!flows.isReadingPaused);
          }
          assert.deepEqual(
            budgets.map(({ usedBytes }) => usedBytes),
            [0, 0],
          );
          assert.equal(clock.pendingTimers, 0);
        }),
        { numRuns: 150 },
      );
    });
  }
});

describe("TunnelFlows", () => {
  it("lets a peer that counts credit, and no other, have more under way", () => {
    assert.equal(recordingTunnel().carrier.grownBytes, 1008 * 1024 * KIB);
    assert.equal(recordingTunnel({ hasCredit: false }).carrier.grownBytes, 0);
  });

  for (const [peer, hasCredit, packetBytes] of [
    ["a peer that counts credit", true, 126 * KIB],
    ["an upstream peer", false, 63 * KIB],
  ] as const) {
    it(`makes packets of ${packetBytes / KIB} KiB at most for ${peer}`, () => {
      const { carrier, open, drain } = recordingTunnel({ hasCredit });
      const { flow } = open(1);
      flow.addCredit(1024 * KIB);
      const sent = Buffer.alloc(2 * 126 * KIB + 5, "some bytes");
      flow.send(sent);
      drain();
      assert.deepEqual(
        carrier.payloads.map(({ length }) => length),
        [...Array.from({ length: (2 * 126 * KIB) / packetBytes }, () => packetBytes), 5],
      );
      assert.ok(Buffer.concat(carrier.payloads).equals(sent));
      assert.equal(carrier.joinedBytes, hasCredit ? packetBytes : 0);
    });
  }

  it("keeps flows that always have something to send within one turn of each other", () => {
    const rounds = fc.array(fc.integer({ min: 1, max: 600 * KIB }), {
      minLength: 1,
      maxLength: 30,
    });
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 6 }), rounds, (flowCount, rooms) => {
        const { carrier, open, drain } = recordingTunnel({ hasCredit: false });
        const sources = Array.from({ length: flowCount }, (_, index) => open(index + 1).flow);
        carrier.roomBytes = 0;
        open(flowCount + 1).flow.send(Buffer.alloc(1));
        carrier.sent.length = 0;
        const sentBytes = sources.map(() => 0);
        for (const room of rooms) {
          for (const flow of sources) {
            if (flow.queuedBytes <= TURN_BYTES) flow.send(Buffer.alloc(TURN_BYTES));
          }
          // At most one turn of each: then all have had something to send all the time.
          drain(Math.min(room, flowCount * TURN_BYTES));
          for (const line of carrier.sent.splice(0)) {
            const [, connectionId, bytes] = line.split(" ");
            sentBytes[Number(connectionId) - 1]! += Number(bytes);
            assert.ok(Math.max(...sentBytes) - Math.min(...sentBytes) <= TURN_BYTES);
          }
        }
        assert.ok(Math.max(...sentBytes) > 0);
      }),
      { numRuns: 200 },
    );
  });

  it("lets a keystroke out behind one turn of each download", () => {
    const { carrier, open, drain } = recordingTunnel({ hasCredit: false });
    const downloads = Array.from({ length: 8 }, (_, index) => open(index + 1).flow);
    carrier.roomBytes = 0;
    for (const flow of downloads) flow.send(Buffer.alloc(TURN_BYTES));
    for (const flow of downloads) flow.send(Buffer.alloc(TURN_BYTES));
    drain(3 * TURN_BYTES);
    open(9).flow.send(Buffer.from("k"));
    const before = carrier.sent.length;
    drain();
    const after = carrier.sent.slice(before);
    const inFront = after.slice(0, after.indexOf("DATA 9 1"));
    const bytes = inFront.reduce((sum, line) => sum + Number(line.split(" ")[2]), 0);
    assert.ok(after.length > inFront.length + 1 && bytes <= downloads.length * TURN_BYTES);
  });

  it("never lets control packets wait for data that waits for room", () => {
    const { carrier, flows, open } = recordingTunnel();
    carrier.roomBytes = 0;
    const [one, other] = [open(1).flow, open(2).flow];
    one.send(Buffer.alloc(1));
    one.send(Buffer.alloc(60 * KIB));
    flows.sendControl({ type: 6 });
    other.sendBehind(finish(2));
    assert.deepEqual(carrier.sent, ["DATA 1 1", "DRAIN", "FINISH 2"]);
  });

  it("is not held up by a flow without credit", () => {
    const { carrier, open } = recordingTunnel();
    const [one, other] = [open(1).flow, open(2).flow];
    one.send(Buffer.alloc(LIMITS.initialBytes));
    assert.equal(one.send(Buffer.alloc(64 * KIB)), false);
    assert.equal(other.send(Buffer.from("hello")), true);
    assert.equal(carrier.sent.at(-1), "DATA 2 5");
  });

  it("wakes sources one by one, as long as there is room", () => {
    const { carrier, open, drain } = recordingTunnel();
    const [one, other] = [open(1), open(2)];
    carrier.roomBytes = 0;
    one.flow.send(Buffer.alloc(1));
    drain(0);
    one.flow.send(Buffer.alloc(1));
    other.flow.send(Buffer.alloc(1));
    one.owner.told.length = 0;
    // The first one that is told fills the line again.
    one.owner.flowReady = () => {
      one.owner.told.push("ready");
      one.flow.send(Buffer.alloc(10));
    };
    drain(5);
    assert.deepEqual([one.owner.told, other.owner.told], [["ready"], []]);
    drain(5);
    assert.deepEqual(other.owner.told, ["ready"]);
  });

  it("lets windows grow by no more than the tunnel's budget together", () => {
    const { budget, open } = recordingTunnel({ limits: { tunnelWindowBytes: 100 * KIB } });
    const flows = [open(1).flow, open(2).flow];
    for (const flow of flows) {
      flow.receive(Buffer.alloc(LIMITS.initialBytes));
      flow.taken(LIMITS.initialBytes);
    }
    assert.equal(budget.usedBytes, 100 * KIB);
    flows[0]!.close();
    assert.equal(budget.usedBytes, 36 * KIB);
    flows[1]!.close();
    assert.equal(budget.usedBytes, 0);
  });
});
