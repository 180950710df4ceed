import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MetricRegistry, PacketType } from "@reachback/common";
import type { CarrierHandler, ControlPacket, Extension, GrpcMethod } from "@reachback/common";
import { ManualClock } from "@reachback/common/testing";
import type { DialBroker } from "../../src/dial/dial-broker.ts";
import { GrpcFrontend } from "../../src/frontend/grpc-frontend.ts";
import { STUCK_MS, UNREAD_ANSWERS_BYTES } from "../../src/limits.ts";
import { ServerMetrics } from "../../src/metrics.ts";
import {
  CANCELLED,
  FakeCarrier,
  TEST_LIMITS,
  connectionId,
  dialId,
  fakeAgent,
} from "../fake-agent.ts";

type Call = Parameters<GrpcMethod>[0];

const HALF_CLOSE: readonly Extension[] = ["flow-control", "half-close"];

/** A client's stream, on which nothing has been said. */
function stream({ asked = "half-close", extensions = HALF_CLOSE } = {}) {
  const clock = new ManualClock();
  const agent = fakeAgent({ extensions, clock });
  const broker: Pick<DialBroker, "dial"> = {
    dial: (request, end) => agent.dial(request, end, 0),
  };
  const frontend = new GrpcFrontend(
    broker as DialBroker,
    new ServerMetrics(new MetricRegistry()),
    clock,
  );
  const carrier = new FakeCarrier();
  let handler: CarrierHandler | undefined;
  let answer: unknown;
  const call = {
    metadata: asked === "" ? [] : [["reachback-extensions", asked]],
    accept: (_counters: unknown, streamHandler: CarrierHandler, metadata: unknown) => {
      handler = streamHandler;
      answer = metadata;
      return carrier;
    },
  };
  frontend.proxy(call as unknown as Call);
  assert.ok(handler);
  const client = handler;
  const id = { connectionId: connectionId(1) };
  const closeRequest: ControlPacket = { type: PacketType.CLOSE_REQ, ...id };
  return { agent, client, carrier, clock, frontend, answer, id, closeRequest };
}

/** The same with an open connection, of id 1. */
function open(options: Parameters<typeof stream>[0] = {}) {
  const opened = stream(options);
  const { agent, client, carrier, id } = opened;
  client.control({
    type: PacketType.DIAL_REQ,
    dialId: dialId(7),
    protocol: "tcp",
    address: "endpoint:80",
  });
  agent.backend.control({ type: PacketType.DIAL_RSP, dialId: dialId(7), ...id, error: "" });
  agent.carrier.sent.length = 0;
  carrier.sent.length = 0;
  const fin: ControlPacket = { type: PacketType.FINISH, ...id };
  const reset: ControlPacket = { type: PacketType.RESET, ...id, error: "failed" };
  const closed = (error = ""): ControlPacket => ({ type: PacketType.CLOSE_RSP, ...id, error });
  /** The agent sends so much, and `carrier` keeps it. */
  const receive = (bytes: number) => {
    carrier.queuedBytes += bytes;
    agent.backend.data(id.connectionId, Buffer.alloc(bytes), true);
  };
  /** The client takes what waits for it, but for so much. */
  const takeUpTo = (leftBytes: number) => {
    carrier.queuedBytes = leftBytes;
    client.sent();
  };
  return { ...opened, receive, takeUpTo, fin, reset, closed };
}

describe("a gRPC client that knows half-close", () => {
  it("is told that the server knows it too", () => {
    assert.deepEqual(open({ asked: "flow-control,half-close" }).answer, [
      ["reachback-revision", "1"],
      ["reachback-extensions", "half-close"],
    ]);
  });

  it("may finish, and receives until the endpoint finishes", () => {
    const { agent, client, carrier, id, fin, closed } = open();
    client.control(fin);
    assert.deepEqual(agent.carrier.sent, [fin]);
    agent.backend.data(id.connectionId, Buffer.from("answer"), true);
    agent.backend.control(fin);
    agent.backend.control(closed());
    assert.deepEqual(carrier.sent, [{ data: "answer", connectionId: 1 }, fin, closed()]);
  });

  it("closes by that with an upstream agent, and still receives what was on its way", () => {
    const { agent, client, carrier, id, fin, closeRequest, closed } = open({ extensions: [] });
    client.control(fin);
    assert.deepEqual(agent.carrier.sent, [closeRequest]);
    agent.backend.data(id.connectionId, Buffer.from("answer"), true);
    agent.backend.control(closed());
    assert.deepEqual(carrier.sent, [{ data: "answer", connectionId: 1 }, closed()]);
    assert.equal(agent.endedCount(), 1);
  });

  it("may fail, which the agent is told", () => {
    const { agent, client, carrier, id, reset, closed } = open();
    client.control(reset);
    assert.deepEqual(agent.carrier.sent, [{ type: PacketType.RESET, ...id, error: "client_lost" }]);
    assert.deepEqual(carrier.sent, [closed()]);
    assert.equal(agent.endedCount(), 1);
  });
});

describe("a gRPC client that asked for the close and cancels before the answer, as Go's do", () => {
  it("has left, and not failed", () => {
    const { agent, client, closeRequest } = open({ asked: "" });
    client.control(closeRequest);
    client.closed(CANCELLED);
    // The second one says that nobody waits for the answer.
    assert.deepEqual(agent.carrier.sent, [closeRequest, closeRequest]);
    assert.equal(agent.endedCount(), 1);
  });

  for (const extensions of [HALF_CLOSE, ["half-close"] as const, []]) {
    it(`loses nothing that it sent, with an agent that knows ${extensions.join() || "nothing"}`, () => {
      const { agent, client, id, closeRequest } = open({ asked: "", extensions });
      const bytes = 300 * 1024;
      agent.carrier.hasRoom = false;
      client.data(id.connectionId, Buffer.alloc(bytes, "x"), true);
      client.control(closeRequest);
      client.closed(CANCELLED);
      agent.carrier.hasRoom = true;
      agent.backend.control({ type: PacketType.CREDIT, ...id, bytes });
      agent.backend.drained();
      let sentBytes = 0;
      for (const packet of agent.carrier.sent)
        if ("data" in packet) sentBytes += packet.data.length;
      assert.equal(sentBytes, bytes);
      assert.deepEqual(agent.carrier.sent.at(-1), closeRequest);
      assert.equal(agent.endedCount(), 1);
    });
  }
});

describe("a gRPC client that does not know half-close", () => {
  it("is answered as upstream does, and sent nothing new", () => {
    const { agent, carrier, answer, fin, closed } = open({ asked: "" });
    assert.equal(answer, undefined);
    agent.backend.control(fin);
    assert.deepEqual(carrier.sent, [closed()]);
  });

  it("gets packets of a size that is fine for upstream's, whatever the agent sends", () => {
    const { agent, carrier, id } = open({ asked: "", extensions: [] });
    const KIB = 1024;
    agent.backend.data(id.connectionId, Buffer.from("a".repeat(126 * KIB) + "b"), true);
    assert.deepEqual(carrier.sent, [
      { data: "a".repeat(63 * KIB), connectionId: 1 },
      { data: "a".repeat(63 * KIB), connectionId: 1 },
      { data: "b", connectionId: 1 },
    ]);
  });

  it("cannot use what it has not asked for", () => {
    const { agent, client, fin, reset } = open({ asked: "" });
    client.control(fin);
    client.control(reset);
    assert.deepEqual(agent.carrier.sent, []);
    assert.equal(agent.endedCount(), 0);
  });
});

describe("a gRPC client that closes what it has never dialed", () => {
  it("is answered as upstream does, until so many answers wait that it cannot be reading", () => {
    const { carrier, client, closeRequest } = stream();
    carrier.queuedBytes = UNREAD_ANSWERS_BYTES;
    client.control(closeRequest);
    assert.equal(carrier.isReset, false);
    carrier.queuedBytes++;
    client.control(closeRequest);
    assert.equal(carrier.isReset, true);
    const answer = {
      type: PacketType.CLOSE_RSP,
      connectionId: connectionId(1),
      error: "backend uninitialized",
    };
    assert.deepEqual(carrier.sent, [answer, answer]);
  });
});

describe("a gRPC client with something left to read when nothing is open any more", () => {
  it("is reset if it takes nothing for a minute", () => {
    const { agent, client, carrier, clock, frontend, receive, closed } = open({ asked: "" });
    receive(1_000);
    agent.backend.control(closed());
    clock.advance(STUCK_MS - 1);
    assert.equal(carrier.isReset, false);
    clock.advance(1);
    assert.equal(carrier.isReset, true);
    client.closed(CANCELLED);
    assert.equal(frontend.streamCount, 0);
    assert.equal(clock.pendingTimers, 0);
  });

  it("has all the time that it needs while it takes some now and then", () => {
    const { agent, carrier, clock, receive, takeUpTo, fin } = open({ asked: "" });
    receive(10);
    // The endpoint's end is the connection's, for a client that knows no half-close.
    agent.backend.control(fin);
    for (let leftBytes = 9; leftBytes > 0; leftBytes--) {
      clock.advance(STUCK_MS - 1);
      takeUpTo(leftBytes);
    }
    clock.advance(STUCK_MS - 1);
    takeUpTo(0);
    assert.equal(clock.pendingTimers, 0);
    assert.equal(carrier.isReset, false);
  });

  it("is not hurried while a connection is open, nor while it dials again", () => {
    const { agent, client, carrier, clock, receive, closed } = open();
    receive(1_000);
    clock.advance(10 * STUCK_MS);
    agent.backend.control(closed());
    client.control({
      type: PacketType.DIAL_REQ,
      dialId: dialId(8),
      protocol: "tcp",
      address: "endpoint:80",
    });
    clock.advance(10 * STUCK_MS);
    assert.equal(carrier.isReset, false);
  });

  it("has a minute in all once its call was aborted", () => {
    const { client, carrier, clock, receive } = open();
    receive(1_000);
    client.closed({ code: 4, message: "context deadline exceeded" });
    clock.advance(STUCK_MS);
    assert.equal(carrier.isReset, true);
    assert.equal(clock.pendingTimers, 0);
  });

  it("counts towards the budgets of windows until it has taken it", () => {
    const { agent, receive, takeUpTo, closed } = open({ asked: "" });
    const grownBytes = TEST_LIMITS.initialBytes;
    receive(TEST_LIMITS.initialBytes);
    takeUpTo(0);
    assert.equal(agent.budget.usedBytes, grownBytes);
    receive(grownBytes + 1_000);
    agent.backend.control(closed());
    assert.equal(agent.endedCount(), 1);
    assert.equal(agent.budget.usedBytes, grownBytes);
    takeUpTo(1_000);
    assert.equal(agent.budget.usedBytes, 1_000);
    takeUpTo(0);
    assert.equal(agent.budget.usedBytes, 0);
  });

  for (const isClosedBefore of [true, false]) {
    it(`no longer counts when it is gone, ${isClosedBefore ? "after" : "with"} its connection`, () => {
      const { agent, client, receive, takeUpTo, closed } = open();
      receive(TEST_LIMITS.initialBytes);
      takeUpTo(0);
      receive(1_000);
      if (isClosedBefore) agent.backend.control(closed());
      assert.ok(agent.budget.usedBytes > 0);
      client.closed(CANCELLED);
      assert.equal(agent.budget.usedBytes, 0);
    });
  }
});
