import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { STUCK_MS } from "../../src/limits.ts";
import { WINDOW, openConnection as open } from "./open-connection.ts";

const HALF_CLOSE_MS = 10_000;

describe("silence of a half-closed connection", () => {
  it("the endpoint has finished and the client says nothing: only the endpoint is told", async () => {
    const { clock, sent, told, fin, assertOver } = open();
    fin();
    clock.advance(HALF_CLOSE_MS - 1);
    assert.deepEqual(sent(), []);
    clock.advance(1);
    assert.deepEqual(sent(), ['RESET "half-close timeout"']);
    assert.deepEqual(told, ["finish", "closed half_close_timeout"]);
    await assertOver("half_close_timeout");
  });

  it("is none while the client says something, or takes something", async () => {
    const { clock, connection, receive, fin, assertOver } = open();
    receive("abc");
    fin();
    for (let turn = 0; turn < 3; turn++) {
      clock.advance(HALF_CLOSE_MS - 1);
      connection.send(Buffer.from("x"));
    }
    for (let turn = 0; turn < 3; turn++) {
      clock.advance(HALF_CLOSE_MS - 1);
      connection.taken(1);
    }
    clock.advance(HALF_CLOSE_MS - 1);
    assert.equal(connection.isClosed, false);
    clock.advance(1);
    await assertOver("half_close_timeout");
  });

  it("is none while the client has something to take", () => {
    const { clock, connection, receive, fin } = open();
    receive("abc");
    fin();
    clock.advance(10 * HALF_CLOSE_MS);
    assert.equal(connection.isClosed, false);
    connection.taken(3);
    clock.advance(2 * HALF_CLOSE_MS);
    assert.equal(connection.isClosed, true);
  });

  it("of the endpoint is the agent's to notice, and is counted as such", async () => {
    const { clock, connection, closed, assertOver } = open();
    connection.finish();
    clock.advance(100 * STUCK_MS);
    assert.equal(connection.isClosed, false);
    closed("half-close timeout");
    await assertOver("half_close_timeout");
    assert.equal(clock.pendingTimers, 0);
  });

  it("is the server's to notice when the endpoint takes nothing of what waits here", async () => {
    const { clock, connection, sent, told, fill, credit, assertOver } = open();
    fill(10);
    connection.finish();
    clock.advance(STUCK_MS - 1);
    credit(1);
    clock.advance(STUCK_MS - 1);
    assert.equal(connection.isClosed, false);
    clock.advance(1);
    assert.deepEqual(sent(), ["DATA 1", 'RESET "half-close timeout"']);
    assert.equal(told.at(-1), "closed half_close_timeout half-close timeout");
    await assertOver("half_close_timeout");
  });

  it("is noticed as well when the client has gone", async () => {
    const { clock, connection, sent, fill, assertOver } = open();
    fill(10);
    connection.abandon("client_closed");
    clock.advance(STUCK_MS);
    assert.deepEqual(sent(), ['RESET "half-close timeout"']);
    await assertOver("half_close_timeout");
  });

  it("is noticed as well when the client has asked for the close, and waits for the answer", async () => {
    const { clock, connection, sent, told, fill, assertOver } = open();
    fill(10);
    connection.requestClose("client_closed");
    clock.advance(STUCK_MS - 1);
    assert.deepEqual(sent(), []);
    clock.advance(1);
    assert.deepEqual(sent(), ['RESET "half-close timeout"']);
    assert.deepEqual(told, ["closed half_close_timeout half-close timeout"]);
    await assertOver("half_close_timeout");
  });

  for (const [how, close] of [
    ["left", "abandon"],
    ["closed", "requestClose"],
  ] as const) {
    it(`is noticed where an upstream agent takes nothing of what a client has ${how}`, async () => {
      const { clock, carrier, connection, sent, assertOver } = open({ extensions: [] });
      carrier.hasRoom = false;
      connection.send(Buffer.from("a"));
      connection.send(Buffer.from("b"));
      connection[close]("client_closed");
      clock.advance(STUCK_MS - 1);
      assert.equal(connection.isClosed, false);
      clock.advance(1);
      assert.equal(sent().at(-1), "CLOSE_REQ");
      await assertOver("half_close_timeout");
    });
  }

  it("is not the client's while the agent does not take what it has sent", async () => {
    const { clock, connection, sent, told, fin, fill, credit, assertOver } = open();
    fin();
    fill(10);
    clock.advance(STUCK_MS - 1);
    assert.equal(connection.isClosed, false, "it is not read: how could it say something?");
    credit(1);
    clock.advance(STUCK_MS - 1);
    assert.equal(connection.isClosed, false);
    clock.advance(1);
    assert.deepEqual(sent(), ["DATA 1", 'RESET "half-close timeout"']);
    assert.equal(told.at(-1), "closed half_close_timeout half-close timeout", "bytes are lost");
    await assertOver("half_close_timeout");
  });

  it("is the client's again once the agent has taken everything", async () => {
    const { clock, connection, fin, fill, credit, assertOver } = open();
    fin();
    fill(10);
    clock.advance(STUCK_MS - 1);
    credit(10);
    clock.advance(HALF_CLOSE_MS - 1);
    assert.equal(connection.isClosed, false);
    clock.advance(1);
    await assertOver("half_close_timeout");
  });

  it("is none while a tunnel without credit takes some now and then", async () => {
    const { clock, carrier, backend, connection, assertOver } = open({
      extensions: ["half-close"],
    });
    carrier.hasRoom = false;
    for (let piece = 0; piece < 3; piece++) connection.send(Buffer.alloc(WINDOW));
    connection.finish();
    clock.advance(STUCK_MS - 1);
    backend.drained();
    clock.advance(STUCK_MS - 1);
    assert.equal(connection.isClosed, false);
    clock.advance(STUCK_MS + 1);
    await assertOver("half_close_timeout");
  });

  it("is none of a client that has asked for the close: the agent answers in its time", () => {
    const { clock, connection, told, fin, closed } = open();
    fin();
    connection.requestClose("client_closed");
    clock.advance(10 * STUCK_MS);
    closed();
    assert.deepEqual(told, ["finish", "closed endpoint_closed"]);
  });
});
