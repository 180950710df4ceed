import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SeededRandom } from "@reachback/common/testing";
import { OK_STATUS } from "@reachback/common";
import { setup } from "./set-setup.ts";

// Servers come, go, hang and lie at random; then the world stands still.

const RUNS = 40;
const EVENTS = 40;

/** Attempts at a time at one place: a fresh one for each server, and two slow ones; one and two for a single server. */
const MAX_SHARED = 7;
const MAX_SINGLE = 3;

interface Server {
  readonly id: string;
  readonly turnsAway: boolean;
  mood: "up" | "down" | "mute";
}

describe("a server set, whatever happens,", () => {
  for (const isShared of [true, false]) {
    const kind = isShared ? "servers behind a balancer" : "a server at each address";
    it(`has few attempts at a time and comes to rest with what is wanted: ${kind}`, async () => {
      for (let seed = 1; seed <= RUNS; seed++) await run(seed, isShared);
    });
  }
});

async function run(seed: number, isShared: boolean): Promise<void> {
  const random = new SeededRandom(seed);
  const pick = (count: number) => Math.floor(random.fraction() * count);
  const all: Server[] = ["a", "b", "c", "d", "e"].map((id) => ({
    id,
    mood: "up",
    turnsAway: pick(2) === 0,
  }));
  let present = all.slice(0, 1 + pick(5));
  const hosts = () => present.map(({ id }) => id);
  const { servers, set, addresses, count, pass, clock } = setup({
    ...(isShared ? {} : { hosts: hosts() }),
    seed,
  });
  servers.answerAt = (host) => {
    const server = isShared ? present[pick(present.length)]! : all.find(({ id }) => id === host)!;
    if (server.mood === "mute") return "silence";
    if (server.mood === "down") return new Error("refused");
    return { id: server.id, count: 1 + pick(3), turnsAway: server.turnsAway };
  };
  if (isShared) count.set(present.length);
  const check = () => {
    const limit = isShared ? MAX_SHARED : MAX_SINGLE * all.length;
    assert.ok(servers.pendingCount <= limit, `seed ${seed}: ${servers.pendingCount} attempts`);
    const up = new Set<string>();
    for (const { serverId, isEnded, carrier } of servers.opened) {
      if (isEnded || carrier.isClosed || carrier.sent.includes("DRAIN")) continue;
      assert.ok(!up.has(serverId), `seed ${seed}: two tunnels to ${serverId}`);
      up.add(serverId);
    }
  };
  const lose = (index: number) => {
    const tunnel = servers.opened[index]!;
    if (tunnel.carrier.isClosed) return;
    tunnel.carrier.isClosed = true;
    tunnel.events.closed(OK_STATUS);
    tunnel.events.gone();
  };

  set.start();
  for (let event = 0; event < EVENTS; event++) {
    const server = all[pick(all.length)]!;
    switch (pick(5)) {
      case 0:
        server.mood = (["up", "down", "mute"] as const)[pick(3)]!;
        break;
      case 1:
        if (servers.opened.length > 0) lose(pick(servers.opened.length));
        break;
      case 2:
        present = all.slice(0, 1 + pick(5));
        if (isShared) count.set(present.length);
        else addresses.change(hosts());
        break;
      default:
        await pass(pick(4_000), 250);
    }
    await pass(0);
    check();
  }

  // The fakes do not end what is ended, as sockets would.
  for (const server of all) server.mood = "up";
  servers.opened.forEach(({ isEnded }, index) => {
    if (isEnded) lose(index);
  });
  await pass(120_000, 250);
  check();
  assert.deepEqual(
    [set.connectedCount, set.serverCount, servers.pendingCount],
    [present.length, present.length, 0],
    `seed ${seed}`,
  );
  const before = servers.attemptCount;
  await pass(600_000, 10_000);
  assert.equal(servers.attemptCount, before, `seed ${seed}: attempts in steady state`);
  set.stop();
  assert.equal(clock.pendingTimers, 0);
}
