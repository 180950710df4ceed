import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { systemClock } from "@reachback/common";
import { ManualClock } from "@reachback/common/testing";
import type { Clock } from "@reachback/common";
import { DnsHostLookup } from "../../src/lookup/dns-host-lookup.ts";
import { LookupError } from "../../src/lookup/host-lookup.ts";
import { startNameServer } from "./fake-name-server.ts";
import type { Zone } from "./fake-name-server.ts";

/** Less than a question takes that nobody answers: three tries of 500, 1,000 and 2,000 ms. */
const MUTE_MS = 3_000;

const FULL = "2001:0db8:0000:0000:0000:0000:0000:0001";

interface Surroundings {
  readonly hosts?: string;
  readonly config?: string;
  readonly clock?: Clock;
  readonly moreServers?: readonly string[];
}

async function setup(
  t: TestContext,
  zone: Zone,
  { hosts = "", config = "", clock, moreServers = [] }: Surroundings = {},
) {
  const folder = mkdtempSync(join(tmpdir(), "reachback-"));
  t.after(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const hostsPath = join(folder, "hosts");
  const resolverConfigPath = join(folder, "resolv.conf");
  writeFileSync(hostsPath, hosts);
  writeFileSync(resolverConfigPath, config);
  const server = await startNameServer(t, zone);
  const lookup = new DnsHostLookup(clock ?? systemClock, {
    hostsPath,
    resolverConfigPath,
    servers: [...moreServers, server.address],
  });
  const { signal } = new AbortController();
  return {
    server,
    lookup,
    find: (name: string) => lookup.lookup(name, signal),
    setHosts: (text: string) => {
      writeFileSync(hostsPath, text);
    },
  };
}

function failsWith(failure: string) {
  return (error: unknown) => error instanceof LookupError && error.failure === failure;
}

describe("DnsHostLookup", () => {
  it("finds what the hosts file lists, without asking anybody", async (t) => {
    const { find, server } = await setup(t, {}, { hosts: "10.0.0.7 node1\n::7 node1" });
    assert.deepEqual(await find("NODE1."), ["10.0.0.7", "::7"]);
    assert.deepEqual(server.questions, []);
  });

  it("sees that the hosts file has changed, five seconds later at most", async (t) => {
    const clock = new ManualClock();
    const { find, setHosts } = await setup(t, {}, { hosts: "10.0.0.7 node1", clock });
    assert.deepEqual(await find("node1"), ["10.0.0.7"]);
    setHosts("10.0.0.8 node1");
    clock.advance(4_999);
    assert.deepEqual(await find("node1"), ["10.0.0.7"]);
    clock.advance(1);
    assert.deepEqual(await find("node1"), ["10.0.0.8"]);
  });

  it("finds addresses of both families, which take turns", async (t) => {
    const { find } = await setup(t, {
      "a.example": { v4: ["192.0.2.1", "192.0.2.2"], v6: [FULL] },
    });
    assert.deepEqual(await find("a.example"), ["192.0.2.1", "2001:db8::1", "192.0.2.2"]);
  });

  it("finds a name that has addresses of one family", async (t) => {
    const { find } = await setup(t, {
      "four.example": { v4: ["192.0.2.1"] },
      "six.example": { v6: [FULL] },
    });
    assert.deepEqual(await find("four.example"), ["192.0.2.1"]);
    assert.deepEqual(await find("six.example"), ["2001:db8::1"]);
  });

  it("does not wait for a family that nobody answers for", async (t) => {
    const { find } = await setup(t, {
      "four.example": { v4: ["192.0.2.1"], v6: "mute" },
      "six.example": { v4: "mute", v6: [FULL] },
    });
    const startedAtMs = performance.now();
    assert.deepEqual(await find("four.example"), ["192.0.2.1"]);
    assert.deepEqual(await find("six.example"), ["2001:db8::1"]);
    assert.ok(performance.now() - startedAtMs < MUTE_MS);
  });

  it("goes through the search domains, and stops at the first that knows the name", async (t) => {
    const { find, server } = await setup(
      t,
      { "web.svc.cluster.local": { v4: ["10.96.0.1"] }, web: { v4: ["192.0.2.9"] } },
      { config: "search default.svc.cluster.local svc.cluster.local\noptions ndots:5" },
    );
    assert.deepEqual(await find("web"), ["10.96.0.1"]);
    assert.deepEqual(
      server.questions.filter((question) => question.startsWith("A ")),
      ["A web.default.svc.cluster.local", "A web.svc.cluster.local"],
    );
  });

  it("says that there is no such name when everybody says so", async (t) => {
    const { find } = await setup(t, { "empty.example": {} }, { config: "search example" });
    await assert.rejects(find("nope.example"), failsWith("not-found"));
    await assert.rejects(find("empty.example"), failsWith("not-found"));
  });

  it("says so at once of what cannot be a name", async (t) => {
    const { find } = await setup(t, {});
    for (const name of ["", ".", "a..b", "a b", "x".repeat(64), "y".repeat(300), "a\u0000b"]) {
      await assert.rejects(find(name), failsWith("not-found"), JSON.stringify(name));
    }
  });

  it("does not say so when a server could not say", async (t) => {
    const { find } = await setup(
      t,
      { "web.broken": { v4: "broken", v6: "broken" }, "half.example": { v4: "broken" } },
      { config: "search broken" },
    );
    await assert.rejects(find("web"), failsWith("failed"));
    await assert.rejects(find("half.example"), failsWith("failed"));
  });

  it("asks the next server within a second or so when the first does not answer", async (t) => {
    const dead = await startNameServer(t, { "a.example": { v4: "mute", v6: "mute" } });
    const { find } = await setup(
      t,
      { "a.example": { v4: ["192.0.2.1"] } },
      { moreServers: [dead.address] },
    );
    const startedAtMs = performance.now();
    assert.deepEqual(await find("a.example"), ["192.0.2.1"]);
    assert.ok(performance.now() - startedAtMs < 2_000);
    assert.equal(dead.questions.length, 2);
  });

  it("is given up with the caller's reason, and leaves nothing open", async (t) => {
    const { lookup } = await setup(t, { "a.example": { v4: "mute", v6: "mute" } });
    const controller = new AbortController();
    const found = lookup.lookup("a.example", controller.signal);
    const reason = new Error("enough");
    setImmediate(() => {
      controller.abort(reason);
    });
    await assert.rejects(found, reason);
    await assert.rejects(lookup.lookup("a.example", controller.signal), reason);
  });

  it("finds fifty names while twenty others are stuck", async (t) => {
    const stuck = Array.from({ length: 20 }, (_, index) => `stuck-${index}.example`);
    const alive = Array.from({ length: 50 }, (_, index) => `alive-${index}.example`);
    const zone: Zone = Object.fromEntries([
      ...stuck.map((name): [string, Zone[string]] => [name, { v4: "mute", v6: "mute" }]),
      ...alive.map((name): [string, Zone[string]] => [name, { v4: ["192.0.2.1"] }]),
    ]);
    const { lookup, find } = await setup(t, zone);
    const controller = new AbortController();
    const waiting = stuck.map((name) => lookup.lookup(name, controller.signal));
    const startedAtMs = performance.now();
    await Promise.all(alive.map(find));
    assert.ok(performance.now() - startedAtMs < MUTE_MS);
    controller.abort(new Error("enough"));
    const outcomes = await Promise.allSettled(waiting);
    assert.ok(outcomes.every(({ status }) => status === "rejected"));
  });
});

describe("DnsHostLookup, asked for all addresses,", () => {
  it("waits for both families", async (t) => {
    const { lookup } = await setup(t, { node1: { v4: ["10.0.0.1"], v6: [FULL] } });
    const { signal } = new AbortController();
    assert.deepEqual(await lookup.lookupAll("node1", signal), {
      v4: ["10.0.0.1"],
      v6: ["2001:db8::1"],
    });
  });

  it("says when one family could not be learned", async (t) => {
    const { lookup } = await setup(t, {
      half: { v4: ["10.0.0.1"], v6: "broken" },
      alone: { v4: ["10.0.0.2"] },
    });
    const { signal } = new AbortController();
    const half = await lookup.lookupAll("half", signal);
    assert.deepEqual(half, { v4: ["10.0.0.1"], v6: undefined });
    const alone = await lookup.lookupAll("alone", signal);
    assert.deepEqual(alone, { v4: ["10.0.0.2"], v6: [] });
  });

  it("has what one family says two seconds later when nobody answers for the other", async (t) => {
    const clock = new ManualClock();
    const { lookup } = await setup(t, { half: { v4: ["10.0.0.1"], v6: "mute" } }, { clock });
    const all = lookup.lookupAll("half", new AbortController().signal);
    while (clock.pendingTimers === 0) await nextTurn();
    clock.advance(2_000);
    assert.deepEqual(await all, { v4: ["10.0.0.1"], v6: undefined });
  });

  it("takes the hosts file for the whole truth", async (t) => {
    const { lookup, server } = await setup(t, {}, { hosts: "10.0.0.7 node1\n::7 node1" });
    assert.deepEqual(await lookup.lookupAll("node1", new AbortController().signal), {
      v4: ["10.0.0.7"],
      v6: ["::7"],
    });
    assert.deepEqual(server.questions, []);
  });
});
