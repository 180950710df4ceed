import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { finish, KIB, LIMITS, recordingTunnel, reset } from "./flow-setup.ts";

const bytes = (count: number) => Buffer.alloc(count);
const PIECE = 16 * KIB;

describe("Flow, sending", () => {
  it("sends at once while there is room and credit", () => {
    const { carrier, open } = recordingTunnel();
    const { flow } = open();
    assert.equal(flow.send(Buffer.from("hello")), true);
    assert.equal(flow.queuedBytes, 0);
    assert.deepEqual(carrier.sent, ["DATA 1 5"]);
  });

  it("leaves what it is given to its owner, sent at once or later", () => {
    const { carrier, open } = recordingTunnel();
    const { flow } = open();
    const piece = Buffer.alloc(48 * KIB, "a");
    flow.send(piece);
    flow.send(piece);
    piece.fill("b");
    flow.addCredit(64 * KIB);
    assert.deepEqual(Buffer.concat(carrier.payloads), Buffer.alloc(96 * KIB, "a"));
  });

  it("sends exactly as much as there is credit for, and splits the piece there", () => {
    const { carrier, open } = recordingTunnel();
    const { flow, owner } = open();
    assert.equal(flow.send(bytes(40 * KIB)), true);
    assert.equal(flow.send(bytes(40 * KIB)), false);
    assert.deepEqual(carrier.sent, ["DATA 1 40960", "DATA 1 24576"]);
    assert.equal(flow.queuedBytes, PIECE);
    flow.addCredit(PIECE - 1);
    assert.equal(flow.queuedBytes, 1);
    assert.deepEqual(owner.told, []);
    flow.addCredit(1);
    assert.equal(flow.queuedBytes, 0);
    assert.deepEqual(owner.told, [], "told before there was credit for more");
    flow.addCredit(1);
    assert.deepEqual(owner.told, ["ready"]);
    const sentBytes = carrier.payloads.reduce((sum, { length }) => sum + length, 0);
    assert.equal(sentBytes, 80 * KIB);
  });

  it("stops its source when the last credit is used, and tells it once when more comes", () => {
    const { open } = recordingTunnel();
    const { flow, owner } = open();
    assert.equal(flow.send(bytes(LIMITS.initialBytes)), false);
    flow.addCredit(PIECE);
    flow.addCredit(PIECE);
    assert.deepEqual(owner.told, ["ready"]);
  });

  it("stops its source when the carrier has no room, and tells it once when it has", () => {
    const { carrier, open, drain } = recordingTunnel();
    const { flow, owner } = open();
    carrier.roomBytes = 10;
    assert.equal(flow.send(bytes(10)), false);
    drain();
    drain();
    assert.deepEqual(owner.told, ["ready"]);
  });

  it("tells its source of credit only when the carrier has room as well", () => {
    const { carrier, open, drain } = recordingTunnel();
    const { flow, owner } = open();
    carrier.roomBytes = LIMITS.initialBytes;
    assert.equal(flow.send(bytes(LIMITS.initialBytes)), false);
    flow.addCredit(PIECE);
    assert.deepEqual(owner.told, []);
    drain();
    assert.deepEqual(owner.told, ["ready"]);
  });

  it("keeps order when something waits", () => {
    const { carrier, open, drain } = recordingTunnel();
    const { flow } = open();
    carrier.roomBytes = 0;
    for (const text of ["a", "b", "c"]) flow.send(Buffer.from(text));
    assert.equal(flow.queuedBytes, 2);
    drain();
    flow.send(Buffer.from("d"));
    assert.equal(Buffer.concat(carrier.payloads).toString(), "abcd");
  });

  it("copies a small piece of something large while it waits", () => {
    const { carrier, open } = recordingTunnel();
    const { flow } = open();
    flow.send(bytes(LIMITS.initialBytes));
    const large = bytes(64 * KIB);
    flow.send(large.subarray(0, 100));
    large.fill(1);
    flow.addCredit(100);
    assert.deepEqual(carrier.payloads.at(-1), bytes(100));
  });

  it("has no limit but the carrier's towards an upstream peer", () => {
    const { carrier, open } = recordingTunnel({ hasCredit: false });
    const { flow } = open();
    for (let piece = 0; piece < 100; piece++) assert.equal(flow.send(bytes(63 * KIB)), true);
    assert.equal(carrier.sent.length, 100);
  });
});

describe("Flow, ending", () => {
  it("sends an end at once when nothing waits", () => {
    const { carrier, open } = recordingTunnel();
    const { flow } = open();
    let sentCount = 0;
    flow.send(Buffer.from("hello"));
    flow.sendBehind(finish(), () => sentCount++);
    assert.deepEqual(carrier.sent, ["DATA 1 5", "FINISH 1"]);
    assert.equal(sentCount, 1);
  });

  it("sends ends in order, behind all data", () => {
    const { carrier, open } = recordingTunnel();
    const { flow } = open();
    flow.send(bytes(LIMITS.initialBytes));
    flow.send(bytes(PIECE));
    flow.sendBehind(finish());
    flow.sendBehind(reset());
    flow.addCredit(PIECE - 1);
    assert.deepEqual(carrier.sent.slice(1), ["DATA 1 16383"]);
    flow.addCredit(1);
    assert.deepEqual(carrier.sent.slice(2), ["DATA 1 1", "FINISH 1", "RESET 1"]);
  });

  it("needs no credit for an end", () => {
    const { carrier, open } = recordingTunnel();
    const { flow } = open();
    flow.send(bytes(LIMITS.initialBytes));
    flow.sendBehind(finish());
    assert.equal(carrier.sent.at(-1), "FINISH 1");
  });

  it("aborts behind what there is credit for, room or not, and drops the rest and its ends", () => {
    const { carrier, open, drain } = recordingTunnel();
    const { flow } = open();
    carrier.roomBytes = 0;
    flow.send(bytes(60 * KIB));
    flow.send(bytes(10 * KIB));
    flow.sendBehind(finish(), () => assert.fail("an end was sent that was overtaken"));
    flow.sendAbort(reset());
    assert.deepEqual(carrier.sent, ["DATA 1 61440", "DATA 1 4096", "RESET 1"]);
    assert.equal(flow.queuedBytes, 0);
    flow.addCredit(PIECE);
    drain();
    assert.equal(carrier.sent.length, 3);
  });

  it("drops on request what waits, so that its end need not wait", () => {
    const { carrier, open } = recordingTunnel();
    const { flow } = open();
    flow.send(bytes(LIMITS.initialBytes));
    flow.send(bytes(PIECE));
    flow.sendBehind(finish());
    flow.dropQueued();
    assert.deepEqual(carrier.sent.slice(1), ["FINISH 1"]);
    assert.equal(flow.queuedBytes, 0);
  });

  it("does nothing more once it is closed", () => {
    const { carrier, clock, budget, flows, open, drain } = recordingTunnel();
    const { flow, owner } = open();
    flow.receive(bytes(LIMITS.initialBytes));
    flow.taken(LIMITS.initialBytes);
    assert.ok(budget.usedBytes > 0);
    carrier.roomBytes = 0;
    flow.send(bytes(PIECE));
    flow.send(bytes(PIECE));
    flow.sendBehind(finish());
    carrier.sent.length = 0;
    owner.told.length = 0;
    flow.close();
    flow.close();
    assert.equal(flow.send(bytes(1)), true);
    flow.sendBehind(finish());
    flow.sendAbort(reset());
    flow.addCredit(PIECE);
    flow.taken(PIECE);
    flow.dropQueued();
    drain();
    assert.deepEqual(carrier.sent, []);
    assert.deepEqual(owner.told, []);
    assert.equal(budget.usedBytes, 0);
    assert.equal(clock.pendingTimers, 0);
    assert.equal(flows.isClear, true);
  });

  it("tells nobody that there is room when it was closed by its own end", () => {
    const { carrier, open, drain } = recordingTunnel();
    const { flow, owner } = open();
    flow.addCredit(PIECE);
    carrier.roomBytes = 0;
    flow.send(bytes(1));
    for (let piece = 0; piece < 4; piece++) flow.send(bytes(PIECE));
    flow.sendBehind(finish(), () => {
      flow.close();
    });
    // Room for what waits, and for no more.
    drain(4 * PIECE - 1);
    assert.equal(carrier.sent.at(-1), "FINISH 1");
    owner.told.length = 0;
    drain();
    assert.deepEqual(owner.told, []);
  });
});

describe("Flow, receiving with credit", () => {
  it("gives credit as bytes are taken, not as they come", () => {
    const { carrier, open } = recordingTunnel();
    const { flow, owner } = open();
    flow.receive(bytes(48 * KIB));
    assert.deepEqual(carrier.sent, []);
    flow.taken(32 * KIB);
    assert.deepEqual(carrier.sent, ["CREDIT 1 32768"]);
    assert.deepEqual(owner.told, ["received 49152"]);
  });

  it("takes the last byte of the window, and calls the next one an overrun", () => {
    const { carrier, open } = recordingTunnel();
    const { flow, owner } = open();
    flow.receive(bytes(LIMITS.initialBytes));
    flow.receive(bytes(1));
    assert.deepEqual(owner.told, ["received 65536", "overrun"]);
    assert.equal(carrier.isReading, true, "others had to wait for it");
  });

  it("still counts what was not taken when the connection was over, and gives no credit for it", () => {
    const { carrier, budget, open } = recordingTunnel();
    const { flow } = open();
    flow.receive(bytes(LIMITS.initialBytes));
    flow.taken(LIMITS.initialBytes);
    flow.receive(bytes(100 * KIB));
    carrier.sent.length = 0;
    flow.retire();
    assert.equal(budget.usedBytes, LIMITS.initialBytes);
    flow.taken(60 * KIB);
    assert.equal(budget.usedBytes, 40 * KIB);
    flow.taken(30 * KIB);
    assert.equal(budget.usedBytes, 10 * KIB);
    flow.close();
    assert.equal(budget.usedBytes, 0);
    assert.deepEqual(carrier.sent, []);
  });

  it("never pauses the tunnel and sets no timer", () => {
    const { carrier, clock, open } = recordingTunnel({ limits: { queueBytes: 1 } });
    open().flow.receive(bytes(LIMITS.initialBytes));
    assert.equal(carrier.isReading, true);
    assert.equal(clock.pendingTimers, 0);
  });

  it("sends credit past data that waits for credit itself", () => {
    const { carrier, open, flows } = recordingTunnel();
    const { flow } = open();
    carrier.roomBytes = 0;
    flow.send(bytes(PIECE));
    flow.send(bytes(PIECE));
    flow.receive(bytes(2 * PIECE));
    flow.taken(2 * PIECE);
    assert.deepEqual(carrier.sent, ["DATA 1 16384", "CREDIT 1 32768"]);
    assert.equal(flows.isClear, false);
  });
});

describe("Flow, receiving from an upstream peer", () => {
  const upstream = () => recordingTunnel({ hasCredit: false });
  const full = LIMITS.queueBytes;

  it("pauses the tunnel when its queue is full, and resumes it when half is gone", () => {
    const { carrier, flows, open } = upstream();
    const { flow } = open();
    flow.receive(bytes(full - 1));
    assert.equal(carrier.isReading, true);
    flow.receive(bytes(1));
    assert.equal(carrier.isReading, false);
    assert.equal(flows.isReadingPaused, true);
    flow.taken(full / 2 - 1);
    assert.equal(carrier.isReading, false);
    flow.taken(1);
    assert.equal(carrier.isReading, true);
    assert.deepEqual(carrier.sent, [], "an upstream peer was sent something new");
  });

  it("resumes it only when the last full queue is not full any more", () => {
    const { carrier, open } = upstream();
    const [one, other] = [open(1), open(2)];
    one.flow.receive(bytes(full));
    other.flow.receive(bytes(full));
    one.flow.taken(full);
    assert.equal(carrier.isReading, false);
    other.flow.close();
    assert.equal(carrier.isReading, true);
  });

  it("has stalled when nothing is taken of a full queue for the timeout", () => {
    const { clock, open } = upstream();
    const { flow, owner } = open();
    flow.receive(bytes(full));
    clock.advance(999);
    assert.deepEqual(owner.told, [`received ${full}`]);
    clock.advance(1);
    assert.deepEqual(owner.told.slice(1), ["stalled"]);
    assert.equal(clock.pendingTimers, 0);
  });

  it("has not stalled while a little is taken now and then", () => {
    const { clock, open } = upstream();
    const { flow, owner } = open();
    flow.receive(bytes(full));
    for (let turn = 0; turn < 20; turn++) {
      clock.advance(999);
      flow.taken(1);
    }
    assert.deepEqual(owner.told, [`received ${full}`]);
    flow.close();
    assert.equal(clock.pendingTimers, 0);
  });

  it("has not stalled while a little is said to be taken whenever it seems so", () => {
    const { clock, open } = upstream();
    const { flow, owner } = open();
    owner.onSeemsStalled = () => {
      flow.taken(1);
    };
    flow.receive(bytes(full));
    clock.advance(20_000);
    assert.equal(flow.untakenBytes, full - 20);
    owner.onSeemsStalled = () => undefined;
    clock.advance(1_000);
    assert.deepEqual(owner.told, [`received ${full}`, "stalled"]);
    assert.equal(clock.pendingTimers, 0);
  });

  it("may rest as long as it likes while its queue is not full", () => {
    const { clock, open } = upstream();
    const { flow, owner } = open();
    flow.receive(bytes(full - 1));
    assert.equal(clock.pendingTimers, 0);
    flow.receive(bytes(1));
    flow.taken(full / 2);
    assert.equal(clock.pendingTimers, 0);
    clock.advance(3_600_000);
    assert.ok(!owner.told.includes("stalled"));
  });

  it("is never told of a stall when the timeout is 0", () => {
    const { clock, carrier, open } = recordingTunnel({
      hasCredit: false,
      limits: { stallTimeoutMs: 0 },
    });
    open().flow.receive(bytes(full));
    assert.equal(carrier.isReading, false);
    assert.equal(clock.pendingTimers, 0);
  });

  it("holds nobody up, and cannot stall, once nothing more comes", () => {
    const { carrier, clock, open } = upstream();
    const { flow } = open();
    flow.receive(bytes(full));
    flow.noMoreComes();
    assert.equal(carrier.isReading, true);
    assert.equal(clock.pendingTimers, 0);
  });

  it("holds the tunnel up all the same where that is asked for, without a stall", () => {
    const { carrier, clock, open } = upstream();
    const { flow } = open();
    flow.receive(bytes(full));
    flow.noMoreComes(false);
    flow.taken(1);
    assert.equal(carrier.isReading, false);
    assert.equal(clock.pendingTimers, 0);
    flow.taken(full / 2);
    assert.equal(carrier.isReading, true);
  });
});
