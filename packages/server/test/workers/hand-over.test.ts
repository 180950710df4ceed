import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PacketType } from "@reachback/common";
import { SeededRandom } from "@reachback/common/testing";
import { connectionId } from "../fake-agent.ts";
import { HandOverWorld, told, until } from "./hand-over-world.ts";

/** Nothing of any dial is left in either worker. */
async function nothingIsLeft(world: HandOverWorld): Promise<void> {
  await until(() => world.first.heldCount === 0 && world.second.heldCount === 0);
}

describe("an agent of the neighbour that left a dial unanswered", () => {
  it("is asked one dial when its time is over, and all again once it has answered", async (t) => {
    const world = await HandOverWorld.start(t);
    const agent = world.addThere("a");
    const known = world.first.registry.choose("endpoint:80");
    assert.ok(known !== undefined);
    assert.equal(known.standing, "sound");
    known.dialUnanswered(world.clock.now());
    assert.equal(known.standing, "failing");
    world.clock.advance(5_000);
    assert.equal(known.standing, "sound", "on trial");
    world.dial();
    await agent.gets("DIAL_REQ 1");
    assert.equal(known.standing, "failing", "the dial on trial is not answered yet");
    agent.answers(1);
    await until(() => known.standing === "sound");
    world.dial();
    await agent.gets("DIAL_REQ 2");
    assert.equal(known.standing, "sound");
  });
});

describe("a dial for an agent that only the neighbour has", () => {
  it("goes there, bytes and ends go both ways, and it counts once", async (t) => {
    const world = await HandOverWorld.start(t);
    const agent = world.addThere("a");
    const { frontend, connection } = world.dial();
    await agent.gets("DIAL_REQ 1");
    const id = agent.answers(1);
    agent.sends(id, "hello");
    await told(frontend, "receive hello");
    connection.taken(5);
    connection.send(Buffer.from("you"));
    await agent.gets("data you");
    connection.finish();
    await agent.gets(`FINISH ${id}`);
    // The other direction goes on.
    agent.sends(id, "more");
    await told(frontend, "receive more");
    connection.taken(4);
    agent.says({ type: PacketType.FINISH, connectionId: connectionId(id) });
    await told(frontend, "finish");
    agent.says({ type: PacketType.CLOSE_RSP, connectionId: connectionId(id), error: "" });
    await told(frontend, "closed client_closed");
    assert.deepEqual(frontend.told, [
      "dialed 1",
      "receive hello",
      "receive more",
      "finish",
      "closed client_closed",
    ]);
    await nothingIsLeft(world);
    assert.equal(await world.first.metric("connections_opened_total"), 1);
    assert.equal(await world.second.metric("connections_opened_total"), 0);
  });

  it("is refused in the endpoint's words, and that is final", async (t) => {
    const world = await HandOverWorld.start(t);
    const agent = world.addThere("a");
    const other = world.addThere("b");
    const { frontend } = world.dial();
    await until(() => agent.received.length + other.received.length === 1);
    (agent.received.length === 1 ? agent : other).refuses(1, "dial tcp: connection refused");
    await until(() => frontend.told.length > 0);
    assert.deepEqual(frontend.told, ["dialFailed refused dial tcp: connection refused"]);
    await nothingIsLeft(world);
    assert.equal(agent.received.length + other.received.length, 1);
  });

  it("is reset at the endpoint if its client fails", async (t) => {
    const world = await HandOverWorld.start(t);
    const agent = world.addThere("a");
    const { frontend, connection } = world.dial();
    await agent.gets("DIAL_REQ 1");
    agent.answers(1);
    await told(frontend, "dialed 1");
    connection.abandon("client_lost");
    await agent.gets("RESET 1 client_lost");
    await nothingIsLeft(world);
  });

  it("keeps what the client sent before it left", async (t) => {
    const world = await HandOverWorld.start(t);
    const agent = world.addThere("a");
    const { frontend, connection } = world.dial();
    await agent.gets("DIAL_REQ 1");
    agent.answers(1);
    await told(frontend, "dialed 1");
    connection.send(Buffer.from("last words"));
    connection.abandon("client_closed");
    await agent.gets("CLOSE_REQ 1");
    assert.deepEqual(agent.received, ["DIAL_REQ 1", "data last words", "CLOSE_REQ 1"]);
    await nothingIsLeft(world);
  });

  it("is refused for the limit of the agent, which the neighbour knows", async (t) => {
    const world = await HandOverWorld.start(t, { maxConnectionsPerAgent: 1 });
    const agent = world.addThere("a");
    world.dial(world.second);
    await agent.gets("DIAL_REQ 1");
    const { frontend } = world.dial();
    await until(() => frontend.told.length > 0);
    assert.deepEqual(frontend.told, [
      "dialFailed limit too many connections: each agent for this address has 1 (--max-connections-per-agent)",
    ]);
  });
});

describe("an agent that drains", () => {
  it("is asked for nothing that a neighbour's agent can do, and the other way round", async (t) => {
    const world = await HandOverWorld.start(t);
    const own = world.addHere("own");
    const first = world.dial();
    await own.gets("DIAL_REQ 1");
    own.answers(1);
    await told(first.frontend, "dialed 1");
    own.says({ type: PacketType.DRAIN });
    const other = world.addThere("other");
    world.dial();
    await other.gets("DIAL_REQ 2");
    other.says({ type: PacketType.DRAIN });
    const next = world.addThere("next");
    for (let dial = 3; dial < 20; dial++) {
      world.dial();
      await next.gets(`DIAL_REQ ${dial}`);
    }
    assert.deepEqual([own.received, other.received], [["DIAL_REQ 1"], ["DIAL_REQ 2"]]);
    // Where all of them drain, one is asked all the same.
    next.leaves();
    world.first.neighbour(world.second).tunnelChanged({ type: "retired", tunnel: 2 });
    const last = world.dial();
    await own.gets("DIAL_REQ 20");
    own.answers(20);
    await told(last.frontend, "dialed 2");
  });
});

describe("a dial that was handed over and finds nobody", () => {
  it("because the agent has just left goes to another agent", async (t) => {
    const world = await HandOverWorld.start(t);
    const agent = world.addThere("a");
    const { frontend } = world.dial();
    const other = world.addHere("b");
    agent.leaves();
    await other.gets("DIAL_REQ 1");
    other.answers(1);
    await told(frontend, "dialed 1");
    assert.deepEqual(agent.received, []);
  });

  it("and there is no other agent fails as if that one were lost", async (t) => {
    const world = await HandOverWorld.start(t);
    world.addThere("a").leaves();
    const { frontend } = world.dial();
    await until(() => frontend.told.length > 0);
    assert.deepEqual(frontend.told, ["dialFailed agentLost"]);
    await nothingIsLeft(world);
  });

  it("because the agent is silent: the neighbour notices, and another agent is asked", async (t) => {
    const world = await HandOverWorld.start(t);
    const mute = world.addThere("mute");
    const { frontend } = world.dial();
    await mute.gets("DIAL_REQ 1");
    const other = world.addThere("other");
    world.clock.advance(5_499);
    assert.equal(mute.standing, "sound");
    world.clock.advance(1);
    await other.gets("DIAL_REQ 1");
    assert.deepEqual(mute.received, ["DIAL_REQ 1", "DIAL_CLS 1"]);
    other.answers(1);
    await told(frontend, "dialed 1");
    // It has left a dial unanswered while another answers: the neighbour leaves it out.
    assert.equal(mute.standing, "failing");
  });

  it("within the deadline: it fails then, and a late success is closed", async (t) => {
    const world = await HandOverWorld.start(t);
    const mute = world.addThere("mute");
    const { frontend } = world.dial();
    await mute.gets("DIAL_REQ 1");
    world.clock.advance(9_999);
    assert.deepEqual(frontend.told, []);
    world.clock.advance(1);
    assert.deepEqual(frontend.told, ["dialFailed timeout"]);
    await mute.gets("DIAL_CLS 1");
    await nothingIsLeft(world);
    mute.answers(1);
    await mute.gets("CLOSE_REQ 1");
    assert.deepEqual(frontend.told, ["dialFailed timeout"]);
  });
});

describe("a neighbour that dies", () => {
  it("while it is asked: the dial goes to another agent", async (t) => {
    const world = await HandOverWorld.start(t);
    const agent = world.addThere("a");
    const { frontend } = world.dial();
    await agent.gets("DIAL_REQ 1");
    const own = world.addHere("b");
    world.second.die();
    await own.gets("DIAL_REQ 1");
    own.answers(1);
    await told(frontend, "dialed 1");
    assert.equal(world.first.heldCount, 1);
  });

  it("before it is reached: so does the dial, at once", async (t) => {
    const world = await HandOverWorld.start(t);
    world.addThere("a");
    world.second.die();
    const { frontend } = world.dial();
    await until(() => frontend.told.length > 0);
    assert.deepEqual(frontend.told, ["dialFailed agentLost"]);
    assert.equal(world.first.heldCount, 0);
  });

  it("while connections run: they end with an error, and never look complete", async (t) => {
    const world = await HandOverWorld.start(t);
    const agent = world.addThere("a");
    const { frontend } = world.dial();
    await agent.gets("DIAL_REQ 1");
    agent.answers(1);
    await told(frontend, "dialed 1");
    world.second.die();
    await until(() => frontend.told.length > 1);
    assert.deepEqual(frontend.told, ["dialed 1", "closed agent_lost agent connection lost"]);
    assert.equal(world.first.heldCount, 0);
  });

  it("is heard of from the primary, before its sockets tell", async (t) => {
    const world = await HandOverWorld.start(t);
    const agent = world.addThere("a");
    const { frontend } = world.dial();
    await agent.gets("DIAL_REQ 1");
    world.first.neighbour(world.second).gone();
    assert.deepEqual(frontend.told, ["dialFailed agentLost"]);
    // What comes late is nobody's.
    await agent.gets("DIAL_CLS 1");
    agent.answers(1);
    await agent.gets("CLOSE_REQ 1");
    await nothingIsLeft(world);
    assert.deepEqual(frontend.told, ["dialFailed agentLost"]);
  });
});

describe("a worker that stops", () => {
  it("ends what it has handed over as what it has itself", async (t) => {
    const world = await HandOverWorld.start(t);
    const agent = world.addThere("a");
    const open = world.dial();
    await agent.gets("DIAL_REQ 1");
    agent.answers(1);
    await told(open.frontend, "dialed 1");
    const pending = world.dial();
    await agent.gets("DIAL_REQ 2");
    world.first.neighbour(world.second).end();
    assert.deepEqual(open.frontend.told, [
      "dialed 1",
      "closed shutdown proxy server shutting down",
    ]);
    assert.deepEqual(pending.frontend.told, ["dialFailed agentLost"]);
    // No CLOSE_REQ: the endpoint must not take what it got for all there was.
    await agent.gets("RESET 1 client_lost");
    await agent.gets("DIAL_CLS 2");
    assert.ok(!agent.received.includes("CLOSE_REQ 1"));
    await nothingIsLeft(world);
  });
});

describe("a dial that is given up", () => {
  it("before there is a way to the neighbour never gets there", async (t) => {
    const world = await HandOverWorld.start(t);
    const agent = world.addThere("a");
    const { connection } = world.dial();
    connection.abandon("client_closed");
    const { frontend } = world.dial();
    await agent.gets("DIAL_REQ 2");
    agent.answers(2);
    await told(frontend, "dialed 1");
    assert.deepEqual(agent.received, ["DIAL_REQ 2"]);
  });

  it("is closed if it is answered later", async (t) => {
    const world = await HandOverWorld.start(t);
    const agent = world.addThere("a");
    const { frontend, connection } = world.dial();
    await agent.gets("DIAL_REQ 1");
    connection.abandon("client_closed");
    await agent.gets("DIAL_CLS 1");
    agent.answers(1);
    await agent.gets("CLOSE_REQ 1");
    await nothingIsLeft(world);
    assert.deepEqual(frontend.told, []);
  });

  it("at any moment leaves nothing anywhere, whatever the agent does", async (t) => {
    const random = new SeededRandom(31);
    const world = await HandOverWorld.start(t);
    const agent = world.addThere("a");
    const turns = async () => {
      for (let turn = Math.floor(random.fraction() * 6); turn > 0; turn--) {
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const open = new Set<number>();
    for (let dial = 1; dial <= 200; dial++) {
      const { connection } = world.dial();
      await turns();
      const choice = random.fraction();
      const isAsked = agent.received.includes(`DIAL_REQ ${dial}`);
      if (isAsked && choice < 0.5) open.add(agent.answers(dial));
      else if (isAsked && choice < 0.7) agent.refuses(dial, "no");
      await turns();
      connection.send(Buffer.from("x"));
      connection.abandon(random.fraction() < 0.5 ? "client_closed" : "client_lost");
    }
    await nothingIsLeft(world);
    // Each that was opened was closed again.
    await until(() => {
      for (const words of agent.received) {
        const [type, id] = words.split(" ");
        if (type === "CLOSE_REQ" || type === "RESET") open.delete(Number(id));
      }
      return open.size === 0;
    });
    assert.equal(agent.heldCount, 0);
  });
});
