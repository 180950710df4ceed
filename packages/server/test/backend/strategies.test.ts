import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PacketType } from "@reachback/common";
import { ManualClock, SeededRandom } from "@reachback/common/testing";
import { BackendRegistry, hostOfAddress } from "../../src/backend/backend-registry.ts";
import type { Backend } from "../../src/backend/backend.ts";
import type { ProxyStrategy } from "../../src/options/proxy-strategies.ts";
import { fakeAgent } from "../fake-agent.ts";

function setup(strategies: readonly ProxyStrategy[], zone = "") {
  const registry = new BackendRegistry(strategies, { zone, random: new SeededRandom(7) });
  const clock = new ManualClock();
  return {
    registry,
    clock,
    /** Connect an agent. */
    add: (agentId: string, identifiers = ""): Backend => {
      const { backend } = fakeAgent({ agentId, identifiers, clock });
      registry.add(backend);
      return backend;
    },
    /** A neighbour has an agent. */
    addThere: (agentId: string, identifiers = ""): Backend => {
      const { backend } = fakeAgent({ agentId, identifiers, clock });
      registry.addNeighbour(backend);
      return backend;
    },
    /** Who gets 100 dials, and how many each. */
    choices: (address: string): Record<string, number> => {
      const counts: Record<string, number> = {};
      for (let i = 0; i < 100; i++) {
        const agentId = registry.choose(address)?.agentId ?? "nobody";
        counts[agentId] = (counts[agentId] ?? 0) + 1;
      }
      return counts;
    },
  };
}

function drain(backend: Backend): void {
  backend.control({ type: PacketType.DRAIN });
}

describe("strategy default", () => {
  it("chooses among all agents at random, whoever they are", () => {
    const { add, choices } = setup(["default"]);
    add("a", "ipv4=10.0.0.1");
    add("b", "default-route=true");
    add("c");
    const counts = choices("10.0.0.1:80");
    assert.deepEqual(Object.keys(counts).sort(), ["a", "b", "c"]);
    for (const count of Object.values(counts)) assert.ok(count >= 15, JSON.stringify(counts));
  });

  it("has nobody without an agent", () => {
    assert.deepEqual(setup(["default"]).choices("h:1"), { nobody: 100 });
  });

  it("leaves draining agents out, unless all are draining", () => {
    const { add, choices } = setup(["default"]);
    const a = add("a");
    const b = add("b");
    add("c");
    drain(a);
    assert.deepEqual(Object.keys(choices("h:1")).sort(), ["b", "c"]);
    drain(b);
    assert.deepEqual(choices("h:1"), { c: 100 });
    const { add: addOther, choices: choicesOther } = setup(["default"]);
    drain(addOther("a"));
    drain(addOther("b"));
    assert.deepEqual(Object.keys(choicesOther("h:1")).sort(), ["a", "b"]);
  });

  it("takes the oldest tunnel of an agent, and a newer one when that drains or ends", () => {
    const { registry, add } = setup(["default"]);
    const [first, second, third] = [add("a"), add("a"), add("a")];
    assert.equal(registry.choose("h:1"), first);
    drain(first);
    assert.equal(registry.choose("h:1"), second);
    registry.remove(second);
    assert.equal(registry.choose("h:1"), third);
    registry.remove(third);
    assert.equal(registry.choose("h:1"), first);
    registry.remove(first);
    assert.equal(registry.choose("h:1"), undefined);
  });

  it("prefers others to an agent that lets dials time out, until its probation is over", () => {
    const { clock, add, choices } = setup(["default"]);
    const lost = add("lost");
    add("other");
    lost.dialUnanswered(clock.now());
    assert.deepEqual(choices("h:1"), { other: 100 });
    clock.advance(4_999);
    assert.deepEqual(choices("h:1"), { other: 100 });
    clock.advance(1);
    assert.deepEqual(choices("h:1"), { lost: 50, other: 50 });
  });

  it("still uses agents that fail when all do, and those that drain before them", () => {
    const { clock, add, choices } = setup(["default"]);
    const [a, b, c] = [add("a"), add("b"), add("c")];
    for (const agent of [a, b]) agent.dialUnanswered(clock.now());
    drain(c);
    assert.deepEqual(choices("h:1"), { c: 100 });
    c.dialUnanswered(clock.now());
    assert.deepEqual(Object.keys(choices("h:1")).sort(), ["a", "b", "c"]);
  });

  it("prefers a newer tunnel of an agent that has come to stay, if the older one is silent", () => {
    const { registry, clock, add } = setup(["default"]);
    const older = add("a");
    clock.advance(60_000);
    const newer = add("a");
    assert.equal(registry.choose("h:1"), older, "the newer one may be a duplicate");
    clock.advance(2_000);
    assert.equal(registry.choose("h:1"), newer);
    older.data(0 as never, Buffer.from("a sign of life"), true);
    assert.equal(registry.choose("h:1"), older);
  });

  it("chooses all the same after many have come and gone", () => {
    const { registry, add, choices } = setup(["default"]);
    const agents = Array.from({ length: 20 }, (_, index) => add(`agent-${index}`));
    for (const agent of agents.slice(2, 19)) registry.remove(agent);
    assert.deepEqual(Object.keys(choices("h:1")).sort(), ["agent-0", "agent-1", "agent-19"]);
    assert.equal(registry.agentCount(), 3);
  });
});

describe("strategy destHost", () => {
  const cases: readonly [identifiers: string, address: string, found: boolean, why?: string][] = [
    ["ipv4=10.0.0.1", "10.0.0.1:80", true],
    ["ipv4=10.0.0.1", "10.0.0.1", true],
    ["ipv4=10.0.0.1", "10.0.0.2:80", false],
    ["ipv4=10.0.0.1&ipv4=10.0.0.2", "10.0.0.2:80", true],
    ["ipv6=fd00::1", "[fd00::1]:80", true],
    ["ipv6=fd00::1", "[fd00:0::1]:80", true, "which is the same address"],
    ["ipv6=FD00:0:0:0:0:0:0:1", "[fd00::1]:80", true, "which is the same address"],
    ["ipv4=10.0.0.1", "[::ffff:10.0.0.1]:80", true, "which is the same address"],
    ["ipv6=::ffff:a00:1", "10.0.0.1:80", true, "which is the same address"],
    ["ipv4=10.0.0.1", "010.0.0.1:80", false, "which is no address"],
    ["ipv4=${HOST_IP}", "${HOST_IP}:80", true, "which is a name"],
    ["ipv6=fe80::1", "[fe80::1%eth0]:80", false, "a zone is another machine's business"],
    ["host=node-1", "node-1:10250", true],
    ["host=node-1", "NODE-1:10250", false, "case counts"],
    ["host=node-1&ipv4=10.0.0.1&ipv6=fd00::1", "10.0.0.1:10250", true],
    ["host=a%20b", "a b:1", true],
    ["cidr=10.0.0.0/8", "10.0.0.1:80", true],
    ["cidr=10.9.8.7/8", "10.0.0.1:80", true, "bits behind the prefix do not matter"],
    ["cidr=10.0.0.0/8", "11.0.0.1:80", false],
    ["cidr=fd00::/8", "[fdff::1]:80", true],
    ["cidr=::/0", "10.0.0.1:80", false, "which is of the other family"],
    ["cidr=0.0.0.0/0", "10.0.0.1:80", true],
    ["cidr=10.0.0.0/33", "10.0.0.1:80", false, "which is no prefix"],
    ["cidr=10.0.0.0", "10.0.0.0:80", false, "which is no prefix"],
    ["cidr=10.0.0.0/8", "node-1:80", false],
    ["default-route=true", "10.0.0.1:80", false],
    ["host=", ":80", false, "an empty host never matches"],
    ["ipv4=", "", false],
    ["", "10.0.0.1:80", false],
  ];
  for (const [identifiers, address, found, why = ""] of cases) {
    it(`${found ? "finds" : "does not find"} "${identifiers}" for ${address} ${why}`, () => {
      const { registry, add } = setup(["destHost"]);
      const agent = add("a", identifiers);
      assert.equal(registry.choose(address), found ? agent : undefined);
    });
  }

  it("shares an identifier among its agents evenly, those that drain last", () => {
    const { registry, add, choices } = setup(["destHost"]);
    const [a, b, c] = ["a", "b", "c"].map((agentId) => add(agentId, "ipv4=10.0.0.1"));
    assert.ok(a && b && c);
    for (const share of Object.values(choices("10.0.0.1:80"))) {
      assert.ok(share >= 25 && share <= 42, String(share));
    }
    drain(a);
    assert.deepEqual(choices("10.0.0.1:80"), { b: 50, c: 50 });
    drain(b);
    registry.remove(c);
    assert.deepEqual(choices("10.0.0.1:80"), { a: 50, b: 50 });
    assert.deepEqual(registry.keyCounts(), new Map([["destHost", 1]]));
  });

  it("goes by the longest prefix, an exact address being the longest", () => {
    const { registry, add } = setup(["destHost"]);
    const wide = add("wide", "cidr=10.0.0.0/8");
    const narrow = add("narrow", "cidr=10.1.0.0/16");
    const exact = add("exact", "ipv4=10.1.2.3");
    assert.equal(registry.choose("10.1.2.3:80"), exact);
    assert.equal(registry.choose("10.1.2.4:80"), narrow);
    assert.equal(registry.choose("10.2.0.1:80"), wide);
    registry.remove(narrow);
    assert.equal(registry.choose("10.1.2.4:80"), wide);
  });

  it("goes by a shorter prefix while the agents of the longer one fail", () => {
    const { registry, clock, add } = setup(["destHost"]);
    const wide = add("wide", "cidr=10.0.0.0/8");
    const exact = add("exact", "ipv4=10.1.2.3");
    exact.dialUnanswered(clock.now());
    assert.equal(registry.choose("10.1.2.3:80"), wide);
    wide.dialUnanswered(clock.now());
    assert.equal(registry.choose("10.1.2.3:80"), exact);
  });

  it("counts identifiers, each once", () => {
    const { registry, add } = setup(["destHost"]);
    const a = add("a", "ipv4=10.0.0.1&host=10.0.0.1&host=a");
    add("b", "host=a&host=b");
    assert.deepEqual(registry.keyCounts(), new Map([["destHost", 3]]));
    registry.remove(a);
    registry.remove(a);
    assert.deepEqual(registry.keyCounts(), new Map([["destHost", 2]]));
  });
});

describe("strategy defaultRoute", () => {
  it("chooses among agents that say they have one", () => {
    const { add, choices } = setup(["defaultRoute"]);
    add("a", "default-route=true");
    add("b", "default-route=1&ipv4=10.0.0.1");
    add("c", "default-route=false");
    add("d", "default-route=maybe");
    add("e", "default-route=false&default-route=true");
    add("f");
    assert.deepEqual(Object.keys(choices("h:1")).sort(), ["a", "b"]);
  });
});

describe("a server with a zone", () => {
  it("prefers its own zone while one agent in it is well, and then spills over at once", () => {
    const { registry, clock, add, choices } = setup(["default"], "west");
    const [one, other] = [add("west-1", "zone=west"), add("west-2", "zone=west")];
    add("east-1", "zone=east");
    add("nowhere");
    assert.deepEqual(choices("h:1"), { "west-1": 50, "west-2": 50 });
    drain(one);
    assert.deepEqual(choices("h:1"), { "west-2": 100 });
    other.dialUnanswered(clock.now());
    assert.deepEqual(Object.keys(choices("h:1")).sort(), ["east-1", "nowhere"]);
    registry.remove(one);
    clock.advance(5_000);
    assert.deepEqual(choices("h:1"), { "west-2": 100 });
  });

  it("goes by the destination first", () => {
    const { registry, add } = setup(["destHost", "default"], "west");
    add("west-1", "zone=west");
    const exact = add("east-1", "zone=east&ipv4=10.0.0.1");
    assert.equal(registry.choose("10.0.0.1:80"), exact);
  });
});

describe("strategies in a row", () => {
  it("are asked in their order", () => {
    const { registry, add } = setup(["destHost", "defaultRoute", "default"]);
    const any = add("any");
    assert.equal(registry.choose("10.0.0.1:80"), any);
    const router = add("router", "default-route=true");
    assert.equal(registry.choose("10.0.0.1:80"), router);
    const exact = add("exact", "ipv4=10.0.0.1");
    assert.equal(registry.choose("10.0.0.1:80"), exact);
    assert.equal(registry.choose("10.0.0.2:80"), router);
  });

  it("stay with a draining exact match", () => {
    const { registry, add } = setup(["destHost", "default"]);
    add("any");
    const exact = add("exact", "ipv4=10.0.0.1");
    drain(exact);
    assert.equal(registry.choose("10.0.0.1:80"), exact);
  });

  it("pass over an exact match that does not answer, if another is well", () => {
    const { registry, clock, add } = setup(["destHost", "default"]);
    const any = add("any");
    const exact = add("exact", "ipv4=10.0.0.1");
    exact.dialUnanswered(clock.now());
    assert.equal(registry.choose("10.0.0.1:80"), any);
    any.dialUnanswered(clock.now());
    assert.equal(registry.choose("10.0.0.1:80"), exact);
  });

  it("say what each may choose from, draining agents included", () => {
    const { registry, add } = setup(["destHost", "default"]);
    const counts = () => Object.fromEntries(registry.keyCounts());
    assert.deepEqual(counts(), { destHost: 0, default: 0 });
    add("any");
    assert.deepEqual(counts(), { destHost: 0, default: 1 });
    const exact = add("exact", "ipv4=10.0.0.1");
    drain(exact);
    assert.deepEqual(counts(), { destHost: 1, default: 2 });
    registry.remove(exact);
    assert.deepEqual(counts(), { destHost: 0, default: 1 });
  });

  it("may be the same one twice", () => {
    const { registry, add } = setup(["default", "default"]);
    const agent = add("a");
    assert.equal(registry.choose("h:1"), agent);
    registry.remove(agent);
    assert.equal(registry.choose("h:1"), undefined);
  });

  it("choose a tunnel that is about to end no more, but it still counts until it has", () => {
    const { registry, add } = setup(["default"]);
    const agent = add("a");
    registry.retire(agent);
    registry.retire(agent);
    assert.equal(registry.choose("h:1"), undefined);
    assert.equal(registry.backends.size, 1);
    registry.remove(agent);
    assert.equal(registry.backends.size, 0);
  });
});

describe("hostOfAddress", () => {
  for (const [address, host] of [
    ["host:80", "host"],
    ["host", "host"],
    ["10.0.0.1:80", "10.0.0.1"],
    ["[::1]:80", "::1"],
    ["::1", "::1"],
    ["fd00::1", "fd00::1"],
    ["[fd00::1%25eth0]:80", "fd00::1%25eth0"],
    ["host:", "host"],
    [":80", ""],
    ["", ""],
    // As upstream mangles it.
    ["[::1]", ":"],
  ]) {
    it(`of "${address}" is "${host}"`, () => {
      assert.equal(hostOfAddress(address ?? ""), host);
    });
  }
});

describe("a neighbour's agents", () => {
  it("take a dial that no agent here is for, and no other", () => {
    const { add, addThere, registry, choices } = setup(["destHost", "default"]);
    addThere("there", "host=h");
    assert.deepEqual(choices("h:1"), { there: 100 });
    assert.deepEqual(choices("other:1"), { there: 100 });
    const here = add("here");
    assert.deepEqual(choices("h:1"), { there: 100 });
    assert.deepEqual(choices("other:1"), { here: 100 });
    registry.retire(here);
    assert.deepEqual(choices("other:1"), { there: 100 });
    assert.equal(registry.chooseOwn("h:1"), undefined);
  });

  it("are not asked for while they have a tunnel here", () => {
    const { add, addThere, registry } = setup(["destHost"]);
    const here = add("agent", "host=h");
    const there = addThere("agent", "host=h");
    assert.equal(registry.choose("h:1"), here);
    assert.equal(
      registry.choose("h:1", (candidate) => candidate !== here),
      undefined,
    );
    registry.retire(here);
    assert.equal(registry.choose("h:1"), there);
    registry.removeNeighbour(there);
    assert.equal(registry.choose("h:1"), undefined);
  });

  it("end the wait for the first agent, and do not count as agents here", () => {
    const { addThere, registry } = setup(["default"]);
    let added = 0;
    registry.onAdded(() => added++);
    addThere("there");
    assert.deepEqual([added, registry.hasHadBackend], [1, true]);
    assert.deepEqual([registry.agentCount(), registry.keyCounts().get("default")], [0, 0]);
  });
});
