import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OK_STATUS, PacketType } from "@reachback/common";
import type { ControlPacket } from "@reachback/common";
import { ManualClock, RecordingLogger, readExposition } from "@reachback/common/testing";
import type { Connection } from "../../src/dial/connection.ts";
import { UNREAD_ANSWERS_BYTES } from "../../src/limits.ts";
import {
  CANCELLED,
  FakeFrontend,
  connectionId,
  dialId,
  fakeAgent,
  TEST_LIMITS,
} from "../fake-agent.ts";
import type { FakeAgent, FakeAgentOptions } from "../fake-agent.ts";

function setup(options: FakeAgentOptions = {}) {
  const agent = fakeAgent(options);
  let lastDialId = 0;
  return {
    ...agent,
    dial: (timeoutMs = 0, id = ++lastDialId) => {
      const frontend = new FakeFrontend();
      const request = { dialId: dialId(id), protocol: "tcp", address: "endpoint:80" };
      return { frontend, connection: agent.dial(request, frontend, timeoutMs) };
    },
  };
}

function dialed(id: number, connection: number, error = ""): ControlPacket {
  return {
    type: PacketType.DIAL_RSP,
    dialId: dialId(id),
    connectionId: connectionId(connection),
    error,
  };
}

function closed(id: number, error = ""): ControlPacket {
  return { type: PacketType.CLOSE_RSP, connectionId: connectionId(id), error };
}

const dialRequest = (id: number): ControlPacket => ({
  type: PacketType.DIAL_REQ,
  dialId: dialId(id),
  protocol: "tcp",
  address: "endpoint:80",
});
const dialClose = (id: number): ControlPacket => ({
  type: PacketType.DIAL_CLS,
  dialId: dialId(id),
});
const closeRequest = (id: number): ControlPacket => ({
  type: PacketType.CLOSE_REQ,
  connectionId: connectionId(id),
});

/** Connections that have ended, by reason. */
async function reasons({ registry }: Pick<FakeAgent, "registry">): Promise<Record<string, number>> {
  const samples = readExposition(await registry.exposition());
  return Object.fromEntries(
    samples
      .filter(({ name }) => name === "reachback_server_connections_closed_total")
      .map(({ labels, value }) => [labels["reason"] ?? "", value]),
  );
}

/** Dials that have failed, by reason. */
async function failures({
  registry,
}: Pick<FakeAgent, "registry">): Promise<Record<string, number>> {
  const samples = readExposition(await registry.exposition());
  return Object.fromEntries(
    samples
      .filter(({ name }) => name.endsWith("_dial_failure_count"))
      .map(({ labels, value }) => [labels["reason"] ?? "", value]),
  );
}

describe("a connection, in each of its states", () => {
  type State = "dialing" | "open" | "closing" | "over";
  type Event =
    | "DIAL_RSP ok"
    | "DIAL_RSP error"
    | "DIAL_CLS"
    | "data"
    | "CLOSE_RSP"
    | "frontend closes"
    | "frontend leaves"
    | "tunnel ends"
    | "server stops"
    | "deadline";

  interface Effect {
    /** What the agent is sent. */
    readonly sent?: readonly ControlPacket[];
    /** What the frontend is told. */
    readonly told?: readonly string[];
    readonly over?: boolean;
  }

  const nothing: Effect = {};
  const CLOSE_RSP_LATE: Effect = { sent: [closeRequest(1)] };

  /** The tables of PROTOCOL.md, "States at the server", for an agent without extensions. */
  const EXPECTED: Record<State, Record<Event, Effect>> = {
    dialing: {
      "DIAL_RSP ok": { told: ["dialed 1"] },
      "DIAL_RSP error": { told: ["dialFailed refused no luck"], over: true },
      DIAL_CLS: { told: ["dialFailed dropped"], over: true },
      data: CLOSE_RSP_LATE,
      CLOSE_RSP: nothing,
      "frontend closes": nothing,
      "frontend leaves": { sent: [dialClose(1)], over: true },
      "tunnel ends": { told: ["dialFailed agentLost"], over: true },
      "server stops": { told: ["dialFailed agentLost"], over: true },
      deadline: { sent: [dialClose(1)], told: ["dialFailed timeout"], over: true },
    },
    open: {
      // The agent has the id already: it may not have it twice.
      "DIAL_RSP ok": CLOSE_RSP_LATE,
      "DIAL_RSP error": nothing,
      DIAL_CLS: nothing,
      data: { told: ["receive bytes"] },
      CLOSE_RSP: { told: ["closed endpoint_closed"], over: true },
      "frontend closes": { sent: [closeRequest(1)] },
      "frontend leaves": {
        sent: [closeRequest(1)],
        told: ["closed client_lost"],
        over: true,
      },
      "tunnel ends": { told: ["closed agent_lost agent connection lost"], over: true },
      "server stops": { told: ["closed shutdown proxy server shutting down"], over: true },
      deadline: nothing,
    },
    closing: {
      "DIAL_RSP ok": CLOSE_RSP_LATE,
      "DIAL_RSP error": nothing,
      DIAL_CLS: nothing,
      data: { told: ["receive bytes"] },
      CLOSE_RSP: { told: ["closed client_closed"], over: true },
      "frontend closes": nothing,
      "frontend leaves": { told: ["closed client_lost"], over: true },
      "tunnel ends": { told: ["closed agent_lost agent connection lost"], over: true },
      "server stops": { told: ["closed shutdown proxy server shutting down"], over: true },
      deadline: nothing,
    },
    over: {
      "DIAL_RSP ok": CLOSE_RSP_LATE,
      "DIAL_RSP error": nothing,
      DIAL_CLS: nothing,
      data: CLOSE_RSP_LATE,
      CLOSE_RSP: nothing,
      "frontend closes": nothing,
      "frontend leaves": nothing,
      "tunnel ends": nothing,
      "server stops": nothing,
      deadline: nothing,
    },
  };

  function enter(state: State) {
    const clock = new ManualClock();
    const parts = setup({ clock });
    const { backend, dial } = parts;
    const { connection, frontend } = dial(10_000);
    if (state !== "dialing") backend.control(dialed(1, 1));
    if (state === "closing") connection.requestClose("client_closed");
    if (state === "over") backend.control(closed(1));
    parts.carrier.sent.length = 0;
    frontend.told.length = 0;
    return { ...parts, clock, connection, frontend };
  }

  type Entered = ReturnType<typeof enter>;
  const happen: Record<Event, (parts: Entered) => void> = {
    "DIAL_RSP ok": ({ backend }) => {
      backend.control(dialed(1, 1));
    },
    "DIAL_RSP error": ({ backend }) => {
      backend.control(dialed(1, 0, "no luck"));
    },
    DIAL_CLS: ({ backend }) => {
      backend.control(dialClose(1));
    },
    data: ({ backend }) => {
      backend.data(connectionId(1), Buffer.from("bytes"), true);
    },
    CLOSE_RSP: ({ backend }) => {
      backend.control(closed(1));
    },
    "frontend closes": ({ connection }) => {
      connection.requestClose("client_closed");
    },
    "frontend leaves": ({ connection }) => {
      connection.abandon("client_lost");
    },
    "tunnel ends": ({ backend }) => {
      backend.closed(CANCELLED);
    },
    "server stops": ({ backend }) => {
      backend.end();
    },
    deadline: ({ clock }) => {
      clock.advance(10_000);
    },
  };

  for (const [state, row] of Object.entries(EXPECTED) as [State, Record<Event, Effect>][]) {
    for (const [event, effect] of Object.entries(row) as [Event, Effect][]) {
      it(`${state}, and then: ${event}`, () => {
        const parts = enter(state);
        happen[event](parts);
        assert.deepEqual(parts.carrier.sent, effect.sent ?? []);
        assert.deepEqual(parts.frontend.told, effect.told ?? []);
        const isOver = state === "over" || effect.over === true;
        assert.equal(parts.connection.isClosed, isOver);
        assert.equal(parts.endedCount(), isOver ? 1 : 0);
        const held = parts.backend.pendingDialCount + parts.backend.connectionCount;
        assert.equal(held, isOver ? 0 : 1);
        if (isOver) assert.equal(parts.clock.pendingTimers, 0);
      });
    }
  }
});

describe("Backend", () => {
  it("gives up a dial at its deadline and not before", () => {
    const clock = new ManualClock();
    const { backend, dial, carrier } = setup({ clock });
    const { frontend } = dial(10_000);
    clock.advance(5_999);
    assert.equal(backend.standing, "sound");
    clock.advance(1);
    assert.equal(backend.standing, "failing", "no endpoint takes an agent as long");
    clock.advance(3_999);
    assert.deepEqual(frontend.told, []);
    clock.advance(1);
    assert.deepEqual(frontend.told, ["dialFailed timeout"]);
    assert.deepEqual(carrier.sent, [dialRequest(1), dialClose(1)]);
    assert.equal(backend.standing, "failing");
    assert.equal(clock.pendingTimers, 0);
  });

  it("leaves no timer behind an answer, nor for a dial without a deadline once it is late", () => {
    const clock = new ManualClock();
    const { backend, dial } = setup({ clock });
    dial(0);
    assert.equal(clock.pendingTimers, 1);
    clock.advance(6_000);
    assert.equal(clock.pendingTimers, 0);
    dial(10_000);
    assert.equal(clock.pendingTimers, 1);
    backend.control(dialed(2, 1));
    assert.equal(clock.pendingTimers, 0);
  });

  it("gives a dial another id while a dial of the same id is going on", () => {
    const { backend, dial, carrier } = setup();
    const first = dial(0, 7);
    const second = dial(0, 7);
    const [, request] = carrier.sent;
    assert.ok(request !== undefined && "dialId" in request);
    assert.notEqual(request.dialId, dialId(7));
    backend.control({ ...dialed(0, 2), dialId: request.dialId } as ControlPacket);
    assert.deepEqual(second.frontend.told, ["dialed 2"]);
    assert.deepEqual(first.frontend.told, []);
    backend.control(dialed(7, 1));
    assert.deepEqual(first.frontend.told, ["dialed 1"]);
    // Answered: the id is free again.
    dial(0, 7);
    assert.deepEqual(carrier.sent.at(-1), dialRequest(7));
  });

  it("refuses a connection without an id, or with one that is in use", () => {
    const { backend, dial, carrier } = setup();
    const first = dial();
    backend.control(dialed(1, 0));
    assert.match(first.frontend.told[0] ?? "", /^dialFailed refused .*unusable connection id 0$/);
    dial();
    backend.control(dialed(2, 5));
    const third = dial();
    backend.control(dialed(3, 5));
    assert.match(third.frontend.told[0] ?? "", /unusable connection id 5$/);
    // Not closed: that would close the other one.
    assert.ok(carrier.sent.every((packet) => "type" in packet && packet.type === 0));
    assert.equal(backend.connectionCount, 1);
  });

  it("ignores what is not for a server, and data without an id", () => {
    const { backend, dial, carrier } = setup();
    dial();
    backend.control(dialed(1, 1));
    carrier.sent.length = 0;
    backend.control(dialRequest(5));
    backend.control(closeRequest(1));
    backend.control(closeRequest(9));
    backend.control(closed(9, "Unknown connectID"));
    backend.control(dialClose(9));
    backend.control(dialed(9, 0, "late"));
    backend.data(connectionId(0), Buffer.from("x"), true);
    assert.deepEqual(carrier.sent, []);
    assert.equal(backend.connectionCount, 1);
  });

  it("asks the agent once per packet to close what nobody wants", () => {
    const { backend, carrier } = setup();
    backend.data(connectionId(9), Buffer.from("a"), true);
    backend.data(connectionId(9), Buffer.from("b"), false);
    backend.data(connectionId(9), Buffer.from("c"), true);
    assert.deepEqual(carrier.sent, [closeRequest(9), closeRequest(9)]);
  });

  it("ends the tunnel of an agent that asks for answers without end, and reads none", () => {
    const unasked = [
      ({ backend }: Pick<FakeAgent, "backend">) => {
        backend.data(connectionId(9), Buffer.from("a"), true);
      },
      ({ backend }: Pick<FakeAgent, "backend">) => {
        backend.control(dialed(9, 9));
      },
    ];
    for (const ask of unasked) {
      const logger = new RecordingLogger();
      const agent = setup({ logger });
      agent.carrier.queuedBytes = UNREAD_ANSWERS_BYTES;
      ask(agent);
      assert.equal(agent.carrier.isReset, false);
      agent.carrier.queuedBytes++;
      ask(agent);
      assert.equal(agent.carrier.isReset, true);
      assert.deepEqual(
        logger.lines.map(({ event }) => event),
        ["tunnel.unread"],
      );
    }
  });

  it("heeds an agent's DRAIN once, however often it comes", () => {
    const logger = new RecordingLogger();
    let draining = 0;
    const owner = {
      backendDraining: () => {
        draining++;
      },
      backendLeaving: () => undefined,
      backendClosed: () => undefined,
    };
    const { backend } = setup({ logger, owner });
    for (let time = 0; time < 3; time++) backend.control({ type: PacketType.DRAIN });
    assert.equal(draining, 1);
    assert.equal(logger.lines.length, 1);
    assert.equal(backend.standing, "draining");
  });

  it("reads the agent only while no frontend has more than it takes", () => {
    const { backend, dial, carrier } = setup();
    const [one, other] = [dial(), dial()];
    backend.control(dialed(1, 1));
    backend.control(dialed(2, 2));
    const full = Buffer.alloc(TEST_LIMITS.queueBytes);
    backend.data(connectionId(1), full.subarray(1), true);
    assert.equal(carrier.isReading, true);
    backend.data(connectionId(1), full.subarray(0, 1), true);
    assert.equal(carrier.isReading, false);
    assert.equal(backend.isReadingPaused, true);
    backend.data(connectionId(2), full, true);
    one.connection.taken(full.length / 2);
    assert.equal(carrier.isReading, false);
    other.connection.taken(full.length / 2);
    assert.equal(carrier.isReading, true);
    assert.equal(backend.isReadingPaused, false);
  });

  it("reads the agent again when a full frontend is gone", () => {
    const { backend, dial, carrier } = setup();
    const { connection } = dial();
    backend.control(dialed(1, 1));
    backend.data(connectionId(1), Buffer.alloc(TEST_LIMITS.queueBytes), true);
    assert.equal(carrier.isReading, false);
    connection.abandon("client_lost");
    assert.equal(carrier.isReading, true);
  });

  it("tells those that wait when the tunnel takes bytes again, once", () => {
    const { backend, dial, carrier } = setup();
    const [one, other, gone] = [dial(), dial(), dial()];
    for (const id of [1, 2, 3]) backend.control(dialed(id, id));
    const isSent = ({ connection }: { connection: Connection }) =>
      connection.send(Buffer.from("x"));
    assert.equal(isSent(other), true);
    carrier.hasRoom = false;
    assert.equal(isSent(one), false);
    assert.equal(isSent(gone), false);
    gone.connection.abandon("client_lost");
    backend.drained();
    backend.drained();
    assert.deepEqual(one.frontend.told, ["dialed 1", "agentReady"]);
    assert.deepEqual(other.frontend.told, ["dialed 2"]);
    assert.deepEqual(gone.frontend.told, ["dialed 3", "closed client_lost"]);
  });

  it("is left before its connections are told, so that none of them is dialed there again", () => {
    const events: string[] = [];
    const { backend, dial, carrier } = setup({
      owner: {
        backendDraining: () => undefined,
        backendLeaving: () => events.push("leaving"),
        backendClosed: (_backend, status) => events.push(`closed ${status.code}`),
      },
    });
    const { frontend } = dial();
    backend.control(dialed(1, 1));
    frontend.closed = (reason) => events.push(reason);
    backend.ended();
    assert.equal(carrier.isClosed, true);
    backend.closed(OK_STATUS);
    assert.deepEqual(events, ["leaving", "agent_lost", "leaving", "closed 0"]);
  });

  it("counts why connections ended and dials failed", async () => {
    const parts = setup({ clock: new ManualClock() });
    const { backend, dial } = parts;
    const connections = Array.from({ length: 9 }, () => dial().connection);
    for (let id = 1; id <= 9; id++) backend.control(dialed(id, id));
    backend.control(closed(1));
    backend.control(closed(2, "reset"));
    connections[2]?.requestClose("client_closed");
    backend.control(closed(3));
    connections[3]?.requestClose("protocol_error");
    backend.control(closed(4));
    connections[4]?.abandon("client_lost");
    connections[5]?.requestClose("client_closed");
    connections[5]?.abandon("client_closed");
    connections[6]?.requestClose("client_closed");
    backend.control(closed(7, "write tcp: i/o timeout"));
    backend.closed(CANCELLED);
    assert.deepEqual(await reasons(parts), {
      endpoint_closed: 1,
      endpoint_error: 2,
      client_closed: 2,
      protocol_error: 1,
      client_lost: 1,
      agent_lost: 2,
    });

    const others = setup();
    others.dial();
    others.backend.control(dialed(1, 0, "no luck"));
    others.dial().connection.abandon("client_lost");
    others.dial();
    others.backend.control(dialClose(3));
    others.dial();
    others.backend.control(dialed(9, 9));
    others.backend.closed(CANCELLED);
    assert.deepEqual(await failures(others), {
      error_response: 1,
      frontend_close: 1,
      backend_close: 2,
      unrecognized_response: 1,
    });
  });

  it("logs each connection's end with its reason and bytes, and each failed dial", () => {
    const logger = new RecordingLogger();
    const { backend, dial } = setup({ logger });
    const { connection } = dial();
    backend.control(dialed(1, 3));
    connection.send(Buffer.from("four"));
    backend.data(connectionId(3), Buffer.from("sixsix"), true);
    backend.control(closed(3, "read: connection reset by peer"));
    dial();
    backend.control(dialed(2, 0, "no luck"));
    assert.deepEqual(
      logger.lines.map(({ level, event, fields }) => ({ level, event, ...fields })),
      [
        {
          level: "debug",
          event: "connection.opened",
          dialId: "1",
          connectionId: "3",
          agentId: "agent-1",
          address: "endpoint:80",
        },
        {
          level: "debug",
          event: "connection.closed",
          dialId: "1",
          connectionId: "3",
          agentId: "agent-1",
          address: "endpoint:80",
          reason: "endpoint_error",
          error: "read: connection reset by peer",
          bytesToAgent: 4,
          bytesFromAgent: 6,
        },
        {
          level: "warn",
          event: "dial.failed",
          dialId: "2",
          connectionId: "0",
          agentId: "agent-1",
          address: "endpoint:80",
          reason: "error_response",
          error: "no luck",
        },
      ],
    );
  });
});
