import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PacketType } from "@reachback/common";
import { TEST_LIMITS, connectionId } from "../fake-agent.ts";
import { WINDOW, openConnection as open } from "./open-connection.ts";

describe("half-close, with an agent that knows it", () => {
  it("client first: the endpoint goes on, and its end closes the connection", async () => {
    const { connection, sent, told, receive, fin, closed, assertOver } = open();
    connection.send(Buffer.from("question"));
    connection.finish();
    connection.finish();
    assert.deepEqual(sent(), ["DATA 8", "FINISH"]);
    receive("answer");
    fin();
    assert.equal(connection.isClosed, false, "nobody knows yet that the endpoint had all");
    closed();
    assert.deepEqual(told, ["receive answer", "finish", "closed client_closed"]);
    assert.equal(sent().length, 2);
    await assertOver("client_closed");
  });

  it("endpoint first: the client goes on, and its end closes the connection", async () => {
    const { connection, sent, told, receive, fin, closed, assertOver } = open();
    receive("greeting");
    fin();
    fin();
    assert.deepEqual(told, ["receive greeting", "finish"]);
    connection.send(Buffer.from("thanks"));
    connection.finish();
    assert.deepEqual(sent(), ["DATA 6", "FINISH"]);
    closed();
    assert.equal(told.at(-1), "closed endpoint_closed");
    await assertOver("endpoint_closed");
  });

  it("sends the client's end behind its data, which waits for credit", () => {
    const { connection, sent, fill, credit } = open();
    fill(10);
    connection.finish();
    assert.deepEqual(sent(), []);
    credit(9);
    assert.deepEqual(sent(), ["DATA 9"]);
    credit(1);
    assert.deepEqual(sent(), ["DATA 9", "DATA 1", "FINISH"]);
  });

  it("drops what the client sends behind its end, and the agent behind the endpoint's", () => {
    const { connection, sent, told, receive, fin } = open();
    connection.finish();
    assert.equal(connection.send(Buffer.from("late")), true);
    fin();
    receive("late");
    assert.deepEqual(sent(), ["FINISH"]);
    assert.deepEqual(told, ["finish"]);
  });

  it("closes the connection where the frontend knows no half-close", async () => {
    const { sent, told, fin, assertOver } = open({ frontendHasHalfClose: false });
    fin();
    assert.deepEqual(sent(), ["CLOSE_REQ"]);
    assert.deepEqual(told, ["finish", "closed endpoint_closed"]);
    await assertOver("endpoint_closed");
  });

  it("ignores an end behind a close", () => {
    const { connection, sent, told, fin } = open();
    connection.requestClose("client_closed");
    connection.finish();
    fin();
    assert.deepEqual(sent(), ["CLOSE_REQ"]);
    assert.deepEqual(told, []);
  });

  it("passes an error of the endpoint on after either end", async () => {
    for (const first of ["client", "endpoint"] as const) {
      const { connection, told, fin, closed, assertOver } = open();
      if (first === "client") connection.finish();
      else fin();
      closed("read tcp: connection reset by peer");
      assert.equal(told.at(-1), "closed endpoint_error read tcp: connection reset by peer");
      await assertOver("endpoint_error");
    }
  });

  it("takes RESET for an error, whether it says why or not", async () => {
    for (const error of ["", "broken"]) {
      const { backend, told, assertOver } = open();
      backend.control({ type: PacketType.RESET, connectionId: connectionId(1), error });
      assert.deepEqual(told, [`closed endpoint_error ${error || "reset"}`]);
      await assertOver("endpoint_error");
    }
  });
});

describe("half-close, with an agent that does not know it", () => {
  const upstream = () => open({ extensions: [] });

  it("leaves it to the frontend how to close", () => {
    const { connection, sent } = upstream();
    assert.equal(connection.finish(), false);
    assert.deepEqual(sent(), []);
    assert.equal(open().connection.finish(), true);
  });

  it("a client that leaves closes it, behind its data", async () => {
    const { carrier, connection, backend, sent, told, assertOver } = upstream();
    carrier.hasRoom = false;
    connection.send(Buffer.from("a"));
    connection.send(Buffer.from("b"));
    connection.abandon("client_closed");
    assert.deepEqual(sent(), ["DATA 1"]);
    carrier.hasRoom = true;
    backend.drained();
    assert.deepEqual(sent(), ["DATA 1", "DATA 1", "CLOSE_REQ"]);
    assert.deepEqual(told, ["closed client_closed"]);
    await assertOver("client_closed");
  });

  it("the endpoint's end closes it as well", async () => {
    const { closed, told, sent, assertOver } = upstream();
    closed();
    assert.deepEqual(told, ["closed endpoint_closed"]);
    assert.deepEqual(sent(), []);
    await assertOver("endpoint_closed");
  });
});

describe("a client that leaves", () => {
  it("in an orderly way: what it sent still arrives, and what comes is dropped", async () => {
    const { connection, sent, told, receive, fill, credit, assertOver } = open();
    fill(10);
    connection.abandon("client_closed");
    connection.abandon("client_closed");
    assert.deepEqual(sent(), []);
    receive(Buffer.alloc(WINDOW / 2));
    assert.deepEqual(sent(), [`CREDIT ${WINDOW / 2}`], "the agent could wait for ever");
    credit(10);
    assert.deepEqual(sent().slice(1), ["DATA 10", "CLOSE_REQ", "CLOSE_REQ"]);
    assert.deepEqual(told, ["closed client_closed"]);
    await assertOver("client_closed");
  });

  it("tells an agent that may be waiting for credit that nobody listens any more", async () => {
    const { connection, sent, assertOver } = open();
    connection.requestClose("client_closed");
    assert.deepEqual(sent(), ["CLOSE_REQ"]);
    connection.abandon("client_closed");
    assert.deepEqual(sent(), ["CLOSE_REQ", "CLOSE_REQ"]);
    await assertOver("client_closed");
  });

  it("says so once to an upstream agent", async () => {
    const { connection, sent, assertOver } = open({ extensions: [] });
    connection.requestClose("client_closed");
    connection.abandon("client_closed");
    assert.deepEqual(sent(), ["CLOSE_REQ"]);
    await assertOver("client_closed");
  });

  it("does not hold the tunnel up with what it has not taken", async () => {
    const { carrier, connection, backend, receive, assertOver } = open({ extensions: [] });
    receive(Buffer.alloc(TEST_LIMITS.queueBytes));
    carrier.hasRoom = false;
    connection.send(Buffer.from("a"));
    connection.send(Buffer.from("b"));
    assert.equal(backend.isReadingPaused, true);
    connection.abandon("client_closed");
    assert.equal(backend.isReadingPaused, false);
    backend.drained();
    await assertOver("client_closed");
  });

  it("with a failure: a reset, behind what there is credit for", async () => {
    const { connection, sent, told, fill, assertOver } = open();
    fill(10);
    connection.abandon("client_lost");
    assert.deepEqual(sent(), ['RESET "client_lost"']);
    assert.deepEqual(told, ["closed client_lost"]);
    await assertOver("client_lost");
  });

  it("with a failure while its close waits: the reset takes its place", async () => {
    const { connection, sent, fill, assertOver } = open();
    fill(10);
    connection.abandon("client_closed");
    connection.abandon("client_lost");
    assert.deepEqual(sent(), ['RESET "client_lost"']);
    await assertOver("client_lost");
  });

  it("with a failure, to an agent without resets: one close", async () => {
    const { carrier, connection, sent, assertOver } = open({ extensions: [] });
    carrier.hasRoom = false;
    connection.send(Buffer.from("a"));
    connection.send(Buffer.from("b"));
    connection.requestClose("client_closed");
    connection.abandon("client_lost");
    assert.deepEqual(sent(), ["DATA 1", "DATA 1", "CLOSE_REQ"]);
    await assertOver("client_lost");
  });
});

describe("flow control", () => {
  it("ends a connection whose agent sends more than it may, and no other", async () => {
    const { connection, sent, told, receive, assertOver } = open();
    receive(Buffer.alloc(WINDOW));
    receive("x");
    assert.deepEqual(sent(), ['RESET "flow control violated"']);
    assert.equal(told.at(-1), "closed protocol_error flow control violated");
    connection.taken(WINDOW);
    assert.equal(sent().length, 1);
    await assertOver("protocol_error");
  });

  it("ends a connection of an upstream agent whose client takes nothing of a full queue", async () => {
    const { clock, sent, told, receive, backend, assertOver } = open({ extensions: [] });
    receive(Buffer.alloc(TEST_LIMITS.queueBytes));
    assert.equal(backend.isReadingPaused, true);
    clock.advance(TEST_LIMITS.stallTimeoutMs - 1);
    assert.equal(told.length, 1);
    clock.advance(1);
    assert.deepEqual(sent(), ["CLOSE_REQ"]);
    assert.equal(told.at(-1), "closed slow_consumer slow consumer");
    await assertOver("slow_consumer");
  });

  it("gives credit for what the client takes", () => {
    const { connection, sent, receive } = open();
    receive(Buffer.alloc(WINDOW / 2));
    assert.deepEqual(sent(), []);
    connection.taken(WINDOW / 2);
    assert.deepEqual(sent(), [`CREDIT ${WINDOW / 2}`]);
  });

  it("lets the client go on when the agent takes more", () => {
    const { told, fill, credit } = open();
    fill(10);
    credit(10);
    assert.deepEqual(told, []);
    credit(1);
    assert.deepEqual(told, ["agentReady"]);
  });
});

describe("what a connection leaves behind", () => {
  const ends: Record<string, (parts: ReturnType<typeof open>) => void> = {
    "tunnel lost": ({ backend }) => {
      backend.closed({ code: 14, message: "gone" });
    },
    "server stopped": ({ backend }) => {
      backend.end();
    },
    "client lost": ({ connection }) => {
      connection.abandon("client_lost");
    },
    "closed by the agent": ({ closed }) => {
      closed();
    },
  };
  const states: Record<string, (parts: ReturnType<typeof open>) => void> = {
    open: () => undefined,
    "client finished": ({ connection }) => {
      connection.finish();
    },
    "endpoint finished": ({ fin }) => {
      fin();
    },
    "both finished": ({ connection, fin }) => {
      connection.finish();
      fin();
    },
    "abandoned with data that waits": ({ connection, fill }) => {
      fill();
      connection.abandon("client_closed");
    },
    "full of data that nobody takes": ({ receive }) => {
      receive(Buffer.alloc(WINDOW));
    },
  };
  for (const [state, enter] of Object.entries(states)) {
    for (const [end, happen] of Object.entries(ends)) {
      it(`nothing, when it was ${state}, and then ${end}`, () => {
        const parts = open();
        enter(parts);
        happen(parts);
        const { clock, connection, backend } = parts;
        assert.equal(connection.isClosed, true);
        assert.equal(backend.connectionCount, 0);
        assert.equal(clock.pendingTimers, 0);
        assert.equal(parts.told.filter((line) => line.startsWith("closed")).length, 1);
      });
    }
  }
});
