import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PacketType } from "@reachback/common";
import { SeededRandom } from "@reachback/common/testing";
import { BackendRegistry, hostOfAddress } from "../../src/backend/backend-registry.ts";
import type { Backend } from "../../src/backend/backend.ts";
import type { ProxyStrategy } from "../../src/options/proxy-strategies.ts";
import { fakeAgent } from "../fake-agent.ts";

function setup(strategies: readonly ProxyStrategy[]) {
  const registry = new BackendRegistry(strategies, new SeededRandom(7));
  return {
    registry,
    /** Connect an agent. */
    add: (agentId: string, identifiers = ""): Backend => {
      const { backend } = fakeAgent({ agentId, identifiers });
      registry.add(backend);
      return backend;
    },
    /** Who gets 100 dials, and how many each. */
    choices: (address: string): Record<string, number> => {
      const counts: Record<string, number> = {};
      for (let i = 0; i < 100; i++) {
        const agentId = registry.find(address)?.agentId ?? "nobody";
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
    assert.equal(registry.find("h:1"), first);
    drain(first);
    assert.equal(registry.find("h:1"), second);
    registry.remove(second);
    assert.equal(registry.find("h:1"), third);
    registry.remove(third);
    assert.equal(registry.find("h:1"), first);
    registry.remove(first);
    assert.equal(registry.find("h:1"), undefined);
  });

  it("prefers others to an agent that lets dials time out, until it is heard again", () => {
    const { registry, add } = setup(["default"]);
    const lost = add("a");
    const successor = add("a");
    lost.dialUnanswered();
    assert.equal(registry.find("h:1"), successor);
    lost.data(0 as never, Buffer.from("a sign of life"), true);
    assert.equal(registry.find("h:1"), lost);
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
    ["ipv6=fd00::1", "[fd00:0::1]:80", false, "no address is made canonical"],
    ["host=node-1", "node-1:10250", true],
    ["host=node-1", "NODE-1:10250", false, "case counts"],
    ["host=node-1&ipv4=10.0.0.1&ipv6=fd00::1", "10.0.0.1:10250", true],
    ["host=a%20b", "a b:1", true],
    ["cidr=10.0.0.0/8", "10.0.0.1:80", false, "cidr is used by nothing"],
    ["default-route=true", "10.0.0.1:80", false],
    ["host=", ":80", false, "an empty host never matches"],
    ["ipv4=", "", false],
    ["", "10.0.0.1:80", false],
  ];
  for (const [identifiers, address, found, why = ""] of cases) {
    it(`${found ? "finds" : "does not find"} "${identifiers}" for ${address} ${why}`, () => {
      const { registry, add } = setup(["destHost"]);
      const agent = add("a", identifiers);
      assert.equal(registry.find(address), found ? agent : undefined);
    });
  }

  it("shares an identifier among agents: the first that does not drain", () => {
    const { registry, add } = setup(["destHost"]);
    const [a, b, c] = ["a", "b", "c"].map((agentId) => add(agentId, "ipv4=10.0.0.1"));
    assert.ok(a && b && c);
    assert.equal(registry.find("10.0.0.1:80"), a);
    drain(a);
    assert.equal(registry.find("10.0.0.1:80"), b);
    registry.remove(b);
    assert.equal(registry.find("10.0.0.1:80"), c);
    drain(c);
    assert.equal(registry.find("10.0.0.1:80"), a, "all drain: the first");
    assert.deepEqual(registry.keyCounts(), new Map([["destHost", 1]]));
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

describe("strategies in a row", () => {
  it("are asked in their order", () => {
    const { registry, add } = setup(["destHost", "defaultRoute", "default"]);
    const any = add("any");
    assert.equal(registry.find("10.0.0.1:80"), any);
    const router = add("router", "default-route=true");
    assert.equal(registry.find("10.0.0.1:80"), router);
    const exact = add("exact", "ipv4=10.0.0.1");
    assert.equal(registry.find("10.0.0.1:80"), exact);
    assert.equal(registry.find("10.0.0.2:80"), router);
  });

  it("stay with a draining exact match", () => {
    const { registry, add } = setup(["destHost", "default"]);
    add("any");
    const exact = add("exact", "ipv4=10.0.0.1");
    drain(exact);
    assert.equal(registry.find("10.0.0.1:80"), exact);
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
    assert.equal(registry.find("h:1"), agent);
    registry.remove(agent);
    assert.equal(registry.find("h:1"), undefined);
  });

  it("choose a tunnel that is about to end no more, but it still counts until it has", () => {
    const { registry, add } = setup(["default"]);
    const agent = add("a");
    registry.retire(agent);
    registry.retire(agent);
    assert.equal(registry.find("h:1"), undefined);
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
