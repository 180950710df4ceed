import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { GrpcCode } from "@reachback/common";
import { SeededRandom } from "@reachback/common/testing";
import { SEED, setup } from "./set-setup.ts";

/** Any of so many servers, in turn. */
function inTurn(count: number, announced = count): () => { id: string; count: number } {
  let turn = 0;
  return () => ({ id: `s${turn++ % count}`, count: announced });
}

describe("a server set before a balancer", () => {
  it("waits longer after each failure, up to the cap, each time up to a tenth more", async () => {
    const { clock, servers, set } = setup();
    const random = new SeededRandom(SEED);
    set.start();
    await nextTurn();
    const bases = [1_000, 1_500, 2_250, 3_375, 5_062.5, 7_593.75, 10_000, 10_000, 10_000];
    let dueMs = 0;
    for (const [index, baseMs] of bases.entries()) {
      dueMs += baseMs * (1 + 0.1 * random.fraction());
      clock.advance(dueMs - 0.01 - clock.now());
      await nextTurn();
      assert.equal(servers.attemptCount, index + 1, `too early after ${baseMs}`);
      clock.advance(0.02);
      await nextTurn();
      assert.equal(servers.attemptCount, index + 2, `too late after ${baseMs}`);
    }
    set.stop();
    assert.equal(clock.pendingTimers, 0);
  });

  it("starts over with short waits once a server has answered, a known one included", async () => {
    const { servers, set, pass } = setup();
    set.start();
    await pass(5_000);
    servers.answer = { id: "a", count: 2 };
    await pass(5_000);
    const before = servers.attemptCount;
    servers.answer = new Error("refused");
    const times = () => new Set(servers.attempts.slice(before).map(({ atMs }) => atMs)).size;
    // Three failures might be those of one server among several.
    await pass(1_000);
    assert.equal(times(), 4);
    await pass(1_100);
    assert.equal(times(), 5);
  });

  it("makes no attempt and has no timer once there are as many tunnels as were announced", async () => {
    const { clock, servers, set, pass, outcomes } = setup();
    servers.answerAt = inTurn(2);
    set.start();
    await pass(1_000);
    assert.deepEqual([set.tunnelCount, set.connectedCount, set.serverCount], [2, 2, 2]);
    assert.deepEqual(outcomes, ["opened", "opened"]);
    assert.equal(clock.pendingTimers, 0);
    await pass(3_600_000, 60_000);
    assert.equal(servers.attemptCount, 2);
  });

  it("leaves a server at once that it has a tunnel to, and learns from it", async () => {
    const { servers, set, pass, lose, logged } = setup();
    servers.answer = { id: "a", count: 3 };
    set.start();
    await pass(0);
    assert.equal(servers.opened[0]?.isEnded, false);
    await pass(200);
    assert.ok(servers.opened.length > 1);
    assert.ok(servers.opened.slice(1).every(({ isEnded }) => isEnded));
    assert.equal(set.tunnelCount, 1);
    lose(1);
    assert.equal(set.tunnelCount, 1, "the tunnel it has is not touched");
    servers.answer = { id: "a", count: 1 };
    await pass(500);
    assert.equal(set.serverCount, 1);
    const before = servers.attemptCount;
    await pass(10_000);
    assert.equal(servers.attemptCount, before);
    assert.equal(logged("tunnel.lost").length, 0);
  });

  for (const [count, way, eagerMs, atLeast, atMost] of [
    [2, "twos", 6_000, 24, 30],
    [20, "twelves", 10_000, 240, 252],
  ] as const) {
    it(`draws in ${way} soon after a duplicate of ${count}, and after ${12 * count} once per interval`, async () => {
      const { servers, set, pass } = setup();
      servers.answer = { id: "a", count };
      set.start();
      await pass(eagerMs);
      const eager = servers.attemptCount;
      assert.ok(eager >= atLeast && eager <= atMost, String(eager));
      await pass(10_000);
      const before = servers.attemptCount;
      await pass(20_000);
      const perSecond = (servers.attemptCount - before) / 20;
      assert.ok(perSecond > 0.9 && perSecond <= 1, String(perSecond));
    });
  }

  it("draws as eagerly while one of several servers is down, and backs off when all are", async () => {
    const { servers, set, pass } = setup();
    servers.answer = { id: "a", count: 6 };
    set.start();
    await pass(500);
    const before = servers.attemptCount;
    for (let round = 0; round < 6; round++) {
      servers.answer = new Error("connection refused");
      await pass(200);
      servers.answer = { id: "a", count: 6 };
      await pass(200);
    }
    const mixed = servers.attemptCount - before;
    assert.ok(mixed >= 24, String(mixed));
    servers.answer = new Error("connection refused");
    await pass(1_000);
    const tolerated = servers.attemptCount;
    await pass(20_000);
    assert.ok(servers.attemptCount - tolerated <= 25, String(servers.attemptCount - tolerated));
  });

  it("draws with as many attempts as there are servers, twelve at most", async () => {
    const { servers, set, pass } = setup();
    servers.answer = { id: "a", count: 3 };
    set.start();
    await pass(0);
    servers.answer = "silence";
    await pass(1_000);
    assert.equal(servers.pendingCount, 3);
    servers.answer = { id: "a", count: 90 };
    // The three that hang become slow, and the next one finds out that there are more.
    await pass(3_300);
    servers.answer = "silence";
    await pass(1_000);
    assert.equal(servers.pendingCount, 14);
    for (let second = 0; second < 60; second++) {
      await pass(1_000);
      assert.ok(servers.pendingCount <= 14);
    }
    set.stop();
    await nextTurn();
    assert.equal(servers.pendingCount, 0);
  });

  it("asks to be turned away by the servers that it has, as long as they are missing one", async () => {
    const { servers, set, pass, outcomes } = setup();
    const next = inTurn(3, 4);
    servers.answerAt = () => ({ ...next(), turnsAway: true });
    set.start();
    await pass(60_000);
    assert.equal(set.tunnelCount, 3);
    assert.ok(servers.turnedAwayCount > 80, `${servers.turnedAwayCount} turned away`);
    // But for those that were under way when the first one answered.
    assert.ok(servers.opened.length <= 5, `${servers.opened.length} answers`);
    const duplicates = servers.turnedAwayCount + servers.opened.length - 3;
    assert.equal(outcomes.filter((outcome) => outcome === "duplicate").length, duplicates);
    servers.answer = { id: "s9", count: 4, turnsAway: true };
    servers.answerAt = () => servers.answer;
    await pass(1_200);
    assert.equal(set.tunnelCount, 4);
  });

  it("names no server once it has one that does not turn away", async () => {
    const { servers, set, pass } = setup();
    const next = inTurn(3, 4);
    servers.answerAt = () => {
      const server = next();
      return { ...server, turnsAway: server.id !== "s2" };
    };
    set.start();
    await pass(1_000);
    assert.equal(set.tunnelCount, 3);
    const before = servers.turnedAwayCount;
    await pass(10_000);
    assert.equal(servers.turnedAwayCount, before);
  });

  it("goes back to a server whose tunnel it lost, that turns away others", async () => {
    const { servers, set, pass, lose } = setup();
    servers.answerAt = () => ({ ...next(), turnsAway: true });
    const next = inTurn(3);
    set.start();
    await pass(1_000);
    lose(1);
    await pass(3_000);
    assert.equal(set.tunnelCount, 3);
    assert.equal(servers.opened.filter(({ isEnded }) => !isEnded).at(-1)?.serverId, "s1");
  });

  it("is not kept waiting by an attempt that hangs", async () => {
    const { servers, set, pass } = setup();
    servers.answer = "silence";
    set.start();
    await pass(3_200);
    assert.equal(servers.attemptCount, 1);
    servers.answer = { id: "a", count: 1 };
    await pass(200);
    assert.equal(set.tunnelCount, 1);
    assert.equal(servers.pendingCount, 0, "what is needless is given up");
  });

  it("believes the largest number that the servers with a tunnel announce", async () => {
    const { servers, set, pass } = setup();
    const announced = { a: 3, b: 3, c: 1 };
    const ids = ["a", "b", "c"] as const;
    let turn = 0;
    servers.answerAt = () => {
      const id = ids[turn++ % 3]!;
      return { id, count: announced[id] };
    };
    set.start();
    await pass(1_000);
    assert.deepEqual([set.tunnelCount, set.serverCount], [3, 3]);
  });

  it("replaces a lost tunnel within 1.1 intervals", async () => {
    const { servers, set, pass, lose, logged } = setup();
    servers.answer = { id: "a", count: 1 };
    set.start();
    await pass(5_000);
    lose(0, { code: GrpcCode.UNAVAILABLE, message: "gone" });
    assert.deepEqual([set.tunnelCount, set.isEmpty], [0, true]);
    await pass(1_100);
    assert.equal(set.tunnelCount, 1);
    assert.deepEqual(logged("tunnel.lost")[0]?.fields, {
      serverId: "a",
      address: "balancer:8091",
      code: "Unavailable",
      error: "gone",
    });
  });

  it("waits longer and longer for a server that ends every tunnel at once", async () => {
    const { servers, set, pass, lose } = setup();
    servers.answer = { id: "a", count: 1 };
    set.start();
    for (let second = 0; second < 120; second++) {
      await pass(1_000);
      for (const [at, { events }] of servers.opened.entries()) {
        if (at === servers.opened.length - 1 && set.tunnelCount > 0) {
          events.closed({ code: GrpcCode.UNAVAILABLE, message: "" });
          lose(at);
        }
      }
    }
    assert.ok(servers.attemptCount <= 18, String(servers.attemptCount));
  });

  it("waits no longer for several servers that end their tunnels together than for one", async () => {
    const { servers, set, pass, lose } = setup();
    servers.answerAt = inTurn(4);
    set.start();
    await pass(1_000);
    assert.equal(set.tunnelCount, 4);
    for (let index = 0; index < 4; index++) lose(index);
    await pass(1_200);
    assert.ok(servers.opened.length > 4, "it is asked again after one interval");
    await pass(1_000);
    assert.equal(set.tunnelCount, 4);
  });

  it("replaces the tunnel to a server that takes its leave, and keeps the old one up", async () => {
    const { servers, set, pass, lose } = setup();
    servers.answer = { id: "a", count: 1 };
    set.start();
    await pass(100);
    servers.opened[0]!.events.serverLeaving("goaway");
    assert.deepEqual([set.tunnelCount, set.connectedCount], [1, 0]);
    await pass(1_100);
    assert.equal(set.tunnelCount, 2);
    assert.equal(servers.opened[0]?.isEnded, false);
    lose(0);
    assert.equal(set.tunnelCount, 1);
    await pass(5_000);
    assert.equal(servers.attemptCount, 2);
  });

  it("does not go back to a server that drains while its tunnel is open, but then it does", async () => {
    const { servers, set, pass, lose } = setup();
    servers.answer = { id: "a", count: 1 };
    set.start();
    await pass(20_000);
    servers.opened[0]!.events.serverLeaving("drain");
    await pass(1_100);
    assert.ok(servers.opened.slice(1).every(({ isEnded }) => isEnded));
    assert.deepEqual([set.tunnelCount, set.connectedCount], [1, 0]);
    servers.answer = { id: "b", count: 1 };
    await pass(300);
    assert.deepEqual([set.tunnelCount, set.connectedCount], [2, 1]);
    assert.equal(servers.opened[0]?.isEnded, false);
    lose(0);
    lose(servers.opened.length - 1);
    servers.answer = { id: "a", count: 1 };
    await pass(2_000);
    assert.deepEqual([set.tunnelCount, set.connectedCount], [1, 1]);
  });

  it("follows a count from elsewhere up and down, draining the idlest and oldest away", async () => {
    const { servers, set, pass, count, logged } = setup();
    servers.answerAt = inTurn(3, 1);
    set.start();
    await pass(500);
    assert.equal(set.tunnelCount, 1);
    count.set(3);
    await pass(500);
    assert.deepEqual([set.tunnelCount, set.serverCount], [3, 3]);
    const before = servers.attemptCount;
    count.set(2);
    assert.deepEqual([set.connectedCount, set.serverCount], [2, 2]);
    const [first, ...others] = servers.opened;
    assert.deepEqual(first?.carrier.sent, ["DRAIN"]);
    assert.equal(first.isEnded, false);
    await pass(1_000);
    assert.equal(first.isEnded, true);
    assert.ok(others.every(({ isEnded, carrier }) => !isEnded && carrier.sent.length === 0));
    assert.equal(logged("tunnel.surplus").length, 1);
    await pass(60_000);
    assert.equal(servers.attemptCount, before);
  });

  it("opens no tunnel that has become one too many meanwhile", async () => {
    const { servers, set, pass, count } = setup();
    count.set(3);
    servers.answer = "silence";
    set.start();
    await pass(10);
    assert.equal(servers.pendingCount, 3);
    servers.answer = { id: "a", count: 1 };
    await pass(3_300);
    assert.equal(set.tunnelCount, 1);
    count.set(1);
    await nextTurn();
    assert.equal(servers.pendingCount, 0);
  });

  it("makes no attempt while it drains, and gives up the one under way", async () => {
    const { clock, servers, set, pass, lose, logged, addresses, count } = setup();
    servers.answer = { id: "a", count: 2 };
    set.start();
    await pass(0);
    servers.answer = "silence";
    await pass(1_100);
    assert.ok(servers.pendingCount > 0);
    const before = servers.attemptCount;
    set.drain();
    set.drain();
    lose(0);
    count.set(5);
    await pass(60_000);
    assert.equal(servers.attemptCount, before);
    assert.deepEqual(servers.opened[0]?.carrier.sent, ["DRAIN"]);
    assert.equal(clock.pendingTimers, 0);
    assert.equal(logged("tunnel.refused").length, 0);
    assert.deepEqual([addresses.isStopped, count.isStopped], [true, true]);
  });

  it("ends every tunnel when it stops, and is empty once they are gone", async () => {
    const { clock, servers, set, pass, lose, logged, changes } = setup();
    servers.answerAt = inTurn(2);
    set.start();
    await pass(1_000);
    set.stop();
    assert.deepEqual(
      servers.opened.map(({ carrier }) => carrier.isEnded),
      [true, true],
    );
    assert.equal(set.isEmpty, false);
    const before = changes();
    lose(0);
    lose(1);
    assert.equal(set.isEmpty, true);
    assert.ok(changes() > before);
    await pass(60_000);
    assert.equal(servers.attemptCount, 2);
    assert.equal(clock.pendingTimers, 0);
    assert.equal(logged("tunnel.lost").length, 0);
  });
});
