import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PacketType } from "@reachback/common";
import type { DialRequestPacket } from "@reachback/common";
import { dialId } from "../fake-agent.ts";
import { DialWorld, answers, mute } from "./dial-world.ts";
import type { ScriptedAgent } from "./dial-world.ts";

const isDialClose = ({ type }: { type: number }) => type === PacketType.DIAL_CLS;

describe("a dial that an agent fails", () => {
  /** Two agents; the first to be asked does `first`, the other answers. */
  function setup(first: (request: DialRequestPacket, agent: ScriptedAgent) => void) {
    const world = new DialWorld();
    let asked: { agent: ScriptedAgent; request: DialRequestPacket } | undefined;
    for (const agentId of ["a", "b"]) {
      world.add(agentId, (request, agent) => {
        if (asked === undefined) {
          asked = { agent, request };
          first(request, agent);
        } else if (agent !== asked.agent) {
          agent.answer(request);
        }
      });
    }
    const dialed = world.dial();
    world.clock.advance(0);
    assert.ok(asked);
    return { world, ...dialed, ...asked };
  }

  it("by saying nothing for six seconds goes to another one, and a late success is closed", async () => {
    const { world, frontend, agent, request } = setup(mute);
    world.clock.advance(5_999);
    assert.deepEqual([frontend.told, agent.received], [[], []]);
    world.clock.advance(1);
    assert.deepEqual(frontend.told, ["dialed 1"]);
    assert.deepEqual(agent.received, [{ type: PacketType.DIAL_CLS, dialId: dialId(1) }]);
    agent.answer(request);
    assert.equal(agent.open.size, 0);
    world.clock.advance(60_000);
    assert.deepEqual(frontend.told, ["dialed 1"]);
    assert.equal(world.clock.pendingTimers, 0);
    assert.deepEqual(await world.reasons("_dial_failure_count"), { backend_dial_timeout: 1 });
    assert.deepEqual(await world.reasons("_dials_retried_total"), { backend_dial_timeout: 1 });
    assert.deepEqual(
      world.logger.lines.filter(({ level }) => level === "warn"),
      [
        {
          level: "warn",
          event: "dial.retried",
          fields: {
            dialId: "1",
            agentId: agent.agentId,
            nextAgentId: agent.agentId === "a" ? "b" : "a",
            address: "endpoint:80",
            reason: "backend_dial_timeout",
          },
        },
      ],
    );
  });

  for (const [how, first] of Object.entries({
    "by leaving": (_request: DialRequestPacket, agent: ScriptedAgent) => {
      agent.leave();
    },
    "by dropping it": (request: DialRequestPacket, agent: ScriptedAgent) => {
      agent.drop(request);
    },
  })) {
    it(`${how} goes to another one at once`, async () => {
      const { world, frontend } = setup(first);
      assert.deepEqual(frontend.told, ["dialed 1"]);
      assert.equal(world.broker.pendingDialCount, 0);
      assert.equal(world.clock.pendingTimers, 0);
      assert.deepEqual(await world.reasons("_dials_retried_total"), { backend_close: 1 });
    });
  }

  it("because the endpoint refuses it is over", () => {
    const { world, frontend } = setup((request, agent) => {
      agent.refuse(request, "connection refused");
    });
    world.clock.advance(60_000);
    assert.deepEqual(frontend.told, ["dialFailed refused connection refused"]);
  });

  it("for a frontend that has left since is told to the second agent alone", () => {
    const world = new DialWorld();
    const agents = [world.add("a", mute), world.add("b", mute)];
    const { connection, frontend } = world.dial();
    world.clock.advance(6_000);
    const [first, second] = agents.sort(
      (one, other) => other.received.length - one.received.length,
    );
    assert.deepEqual([first?.received.length, second?.received.length], [1, 0]);
    connection?.abandon("client_lost");
    assert.deepEqual([first?.received.length, second?.received.length], [1, 1]);
    assert.deepEqual(frontend.told, []);
    assert.equal(world.clock.pendingTimers, 0);
  });

  it("is tried on a second agent, and not on a third", () => {
    const world = new DialWorld();
    const agents = ["a", "b", "c"].map((agentId) => world.add(agentId, mute));
    const { frontend } = world.dial();
    world.clock.advance(9_999);
    assert.deepEqual(frontend.told, []);
    world.clock.advance(1);
    assert.deepEqual(frontend.told, ["dialFailed timeout"]);
    assert.deepEqual(agents.map(({ dialCount }) => dialCount).sort(), [0, 1, 1]);
    assert.equal(agents.filter(({ received }) => received.some(isDialClose)).length, 2);

    const others = new DialWorld();
    for (const agentId of ["a", "b", "c"]) {
      others.add(agentId, (_request, agent) => {
        agent.leave();
      });
    }
    const lost = others.dial();
    others.clock.advance(0);
    assert.deepEqual(lost.frontend.told, ["dialFailed agentLost"]);
  });

  it("stays with a slow one if there is no other", () => {
    const world = new DialWorld();
    world.add("slow", (request, agent) => {
      world.clock.schedule(9_000, () => {
        agent.answer(request);
      });
    });
    const first = world.dial();
    world.clock.advance(9_000);
    assert.deepEqual(first.frontend.told, ["dialed 1"]);
    assert.equal(world.clock.pendingTimers, 0);
  });

  it("is not retried when the deadline is too short to tell whose fault it is", () => {
    const world = new DialWorld({ limits: { backendDialTimeoutMs: 6_000 } });
    const agents = [world.add("a", mute), world.add("b", mute)];
    const { frontend } = world.dial();
    world.clock.advance(6_000);
    assert.deepEqual(frontend.told, ["dialFailed timeout"]);
    assert.deepEqual(agents.map(({ dialCount }) => dialCount).sort(), [0, 1]);
  });

  it("without a deadline is retried all the same, and then waits for ever", () => {
    const world = new DialWorld({ limits: { backendDialTimeoutMs: 0 } });
    const agents = [world.add("a", mute), world.add("b", mute)];
    const { frontend } = world.dial();
    world.clock.advance(3_600_000);
    assert.deepEqual(
      agents.map(({ dialCount }) => dialCount),
      [1, 1],
    );
    assert.deepEqual(frontend.told, []);
    assert.equal(world.clock.pendingTimers, 0);
  });
});

describe("a dial before the first agent", () => {
  const limits = { startupDialHoldMs: 3_000 };

  it("waits for it, and has all its time then", () => {
    const world = new DialWorld({ limits });
    const { frontend } = world.dial();
    world.clock.advance(2_999);
    assert.equal(world.broker.pendingDialCount, 1);
    world.add("a", answers);
    world.clock.advance(0);
    assert.deepEqual(frontend.told, ["dialed 1"]);
    assert.equal(world.clock.pendingTimers, 0);
  });

  it("waits for one that can take it", () => {
    const world = new DialWorld({ limits, strategies: ["destHost"] });
    const { frontend } = world.dial("10.0.0.1:80");
    world.add("other", answers, "ipv4=10.0.0.2");
    world.add("right", answers, "ipv4=10.0.0.1");
    world.clock.advance(0);
    assert.deepEqual(frontend.told, ["dialed 1"]);
  });

  it("fails when nobody comes in time, and at once without the flag or after a first agent", async () => {
    const world = new DialWorld({ limits });
    const { frontend } = world.dial();
    world.clock.advance(3_000);
    assert.deepEqual(frontend.told, ["dialFailed noAgent"]);
    world.add("a", answers).leave();
    assert.deepEqual(world.dial().frontend.told, ["dialFailed noAgent"]);
    assert.equal(world.dial().connection, undefined);
    assert.deepEqual(new DialWorld().dial().frontend.told, ["dialFailed noAgent"]);
    assert.deepEqual(await world.reasons("_dial_failure_count"), { no_agent: 3 });
    assert.equal(world.broker.heldCount, 0);
  });

  it("may be abandoned, and ends with the server", () => {
    const world = new DialWorld({ limits });
    const [left, held] = [world.dial(), world.dial()];
    left.connection?.abandon("client_lost");
    world.broker.end();
    assert.deepEqual([left.frontend.told, held.frontend.told], [[], ["dialFailed noAgent"]]);
    assert.equal(world.clock.pendingTimers, 0);
    assert.equal(world.broker.heldCount, 0);
  });
});

describe("a dial too many", () => {
  it("is refused at once while too many are pending", async () => {
    const world = new DialWorld({ limits: { maxPendingDials: 2 } });
    world.add("a", mute);
    const [first] = [world.dial(), world.dial()];
    const error = "too many pending dials: 2 wait for an answer (--max-pending-dials)";
    assert.deepEqual(world.dial().frontend.told, [`dialFailed limit ${error}`]);
    first.connection?.abandon("client_lost");
    assert.deepEqual(world.dial().frontend.told, []);
    assert.deepEqual(await world.reasons("_dial_failure_count"), {
      frontend_close: 1,
      pending_dials_limit: 1,
    });
  });

  it("is refused at once while there are too many connections", async () => {
    const world = new DialWorld({ limits: { maxConnections: 2 } });
    world.add("a", answers);
    const [first] = [world.dial(), world.dial()];
    world.clock.advance(0);
    const error = "too many connections: 2 are open or being dialed (--max-connections)";
    assert.deepEqual(world.dial().frontend.told, [`dialFailed limit ${error}`]);
    first.connection?.abandon("client_closed");
    assert.deepEqual(world.dial().frontend.told, []);
    assert.deepEqual(await world.reasons("_dial_failure_count"), { connections_limit: 1 });
  });

  it("for one agent goes to another, and is refused if all have their fill", async () => {
    const world = new DialWorld({ limits: { maxConnectionsPerAgent: 3 } });
    const agents = [world.add("a", answers), world.add("b", answers)];
    for (let i = 0; i < 6; i++) world.dial();
    world.clock.advance(0);
    assert.deepEqual(
      agents.map(({ open }) => open.size),
      [3, 3],
    );
    const error =
      "too many connections: each agent for this address has 3 (--max-connections-per-agent)";
    assert.deepEqual(world.dial().frontend.told, [`dialFailed limit ${error}`]);
    assert.deepEqual(await world.reasons("_dial_failure_count"), { agent_connections_limit: 1 });
  });
});

describe("many dials", () => {
  it("on an agent that never answers all end at their deadline, and leave nothing", () => {
    const world = new DialWorld();
    const agent = world.add("a", mute);
    const dials = Array.from({ length: 500 }, () => world.dial());
    world.clock.advance(10_000);
    for (const { frontend } of dials) assert.deepEqual(frontend.told, ["dialFailed timeout"]);
    assert.equal(agent.received.filter(isDialClose).length, 500);
    assert.equal(world.broker.heldCount, 0);
    assert.equal(world.clock.pendingTimers, 0);
  });

  it("go to equal agents in equal shares", () => {
    for (const answerMs of [0, 30]) {
      const world = new DialWorld();
      const agents = Array.from({ length: 10 }, (_, index) =>
        world.add(`agent-${index}`, (request, agent) => {
          world.clock.schedule(answerMs, () => {
            agent.answer(request);
          });
        }),
      );
      for (let i = 0; i < 10_000; i++) {
        world.dial().connection?.abandon("client_closed");
        world.clock.advance(2);
      }
      const shares = agents.map(({ dialCount }) => dialCount);
      const spread = Math.max(...shares) - Math.min(...shares);
      assert.ok(spread < 100, shares.join(" "));
    }
  });

  it("hardly ever go to an agent that is wedged, seldom to a slow one, and all succeed", () => {
    const world = new DialWorld();
    const quick = Array.from({ length: 8 }, (_, index) => world.add(`agent-${index}`, answers));
    const wedged = world.add("wedged", mute);
    const slow = world.add("slow", (request, agent) => {
      world.clock.schedule(2_000, () => {
        agent.answer(request);
      });
    });
    const dialEvery50Ms = (count: number) =>
      Array.from({ length: count }, () => {
        const dialed = world.dial();
        world.clock.advance(50);
        return dialed;
      });
    const warmUp = dialEvery50Ms(20);
    const [wedgedBefore, slowBefore] = [wedged.dialCount, slow.dialCount];
    const dials = dialEvery50Ms(2_000);
    world.clock.advance(10_000);
    for (const { frontend } of [...warmUp, ...dials]) {
      assert.match(frontend.told.join(), /^dialed \d+$/);
    }
    assert.ok(wedged.dialCount - wedgedBefore < 20, `wedged: ${wedged.dialCount}`);
    assert.ok(slow.dialCount - slowBefore < 100, `slow: ${slow.dialCount}`);
    assert.ok(quick.every(({ dialCount }) => dialCount > 200));
  });

  it("that are cancelled, answered, dropped and lost at random leave nothing, and each hears one word", () => {
    const world = new DialWorld();
    const { clock, random } = world;
    const upTo = (limit: number) => Math.floor(random.fraction() * limit);
    const agents: ScriptedAgent[] = [];
    const everyAgent: ScriptedAgent[] = [];
    const addAgent = () => {
      const agent = world.add(`agent-${upTo(8)}`, (request) => {
        const choice = upTo(10);
        if (choice < 5)
          clock.schedule(upTo(12_000), () => {
            agent.answer(request);
          });
        else if (choice < 7)
          clock.schedule(upTo(2_000), () => {
            agent.refuse(request, "no");
          });
        else if (choice < 8) agent.drop(request);
      });
      agents.push(agent);
      everyAgent.push(agent);
    };
    const dials: ReturnType<DialWorld["dial"]>[] = [];
    for (let step = 0; step < 3_000; step++) {
      if (agents.length < 5) addAgent();
      const dialed = world.dial();
      dials.push(dialed);
      if (upTo(3) === 0) {
        clock.schedule(upTo(12_000), () => {
          dialed.connection?.abandon("client_lost");
        });
      }
      if (upTo(50) === 0) agents.splice(upTo(agents.length), 1)[0]?.leave();
      clock.advance(upTo(40));
    }
    clock.advance(30_000);
    for (const { frontend } of dials) {
      const outcomes = frontend.told.filter((line) => line.startsWith("dial"));
      assert.ok(outcomes.length <= 1, outcomes.join());
    }
    assert.equal(world.broker.pendingDialCount, 0);
    for (const { connection } of dials) connection?.abandon("client_closed");
    assert.equal(world.broker.heldCount, 0);
    assert.equal(clock.pendingTimers, 0);
    for (const agent of agents) assert.deepEqual([...agent.open], []);
    assert.ok(everyAgent.length > 20);
  });
});
