import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HeaderList } from "../../src/hpack/header-list.ts";
import { Setting } from "../../src/http2/frame.ts";
import { Http2Connection } from "../../src/http2/http2-connection.ts";
import { Http2ErrorCode } from "../../src/http2/http2-error.ts";
import { ManualClock } from "@reachback/common/testing";
import { MemorySocket } from "./memory-socket.ts";
import { LIMITS, REQUEST, openClient, openServer } from "./raw-peer.ts";

const OK: HeaderList = [[":status", "200"]];

describe("GOAWAY from the peer", () => {
  it("refuses the requests that it leaves out and lets the others finish", async (t) => {
    const { peer, request, connection, events } = await openClient(t);
    const calls = [request(), request(), request()];
    await peer.frames();
    peer.sendGoaway(3, Http2ErrorCode.NO_ERROR, "so long");
    assert.deepEqual(events, ["goaway NO_ERROR so long"]);
    assert.equal(connection.canRequest, false);
    assert.deepEqual(
      calls.map((call) => call.events),
      [[], [], ["closed: reset by peer REFUSED_STREAM"]],
    );
    peer.sendHeaders(1, OK, true);
    peer.sendHeaders(3, OK);
    peer.sendData(3, Buffer.from("x"), true);
    assert.equal(calls[0]?.events.at(-1), "ended");
    assert.equal(calls[1]?.received.toString(), "x");
    assert.deepEqual(await peer.seen(), []);
    assert.equal(connection.isClosed, false);
  });

  it("may come twice, first with the last id there can be", async (t) => {
    const { peer, request, events } = await openClient(t);
    const calls = [request(), request()];
    peer.sendGoaway(0x7fff_ffff, 0);
    assert.deepEqual(
      calls.map((call) => call.events),
      [[], []],
    );
    peer.sendGoaway(1, 0);
    assert.deepEqual(
      calls.map((call) => call.events.length),
      [0, 1],
    );
    assert.equal(events.length, 2);
    await peer.settled();
  });

  it("with an error is passed on in its words, and the connection lives until it is closed", async (t) => {
    const { peer, events, request } = await openClient(t);
    const call = request();
    peer.sendGoaway(1, Http2ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings");
    peer.socket.receiveEnd();
    await peer.settled();
    assert.deepEqual(events, ["goaway ENHANCE_YOUR_CALM too_many_pings", "closed: in order"]);
    assert.deepEqual(call.events, ["closed: connection closed"]);
  });

  it("from a client leaves its requests alone", async (t) => {
    const { peer, streams, events } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    peer.sendGoaway(0, 0);
    assert.deepEqual(events, ["goaway NO_ERROR"]);
    peer.sendData(1, Buffer.from("x"), true);
    assert.equal(streams[0]?.events.at(-1), "ended");
    await peer.settled();
  });
});

describe("an owner that throws", () => {
  it("loses the connection with all its streams, whose next bytes would be misread", async (t) => {
    const { peer, request, events } = await openClient(t);
    const [call, other] = [request(), request()];
    peer.sendHeaders(1, OK);
    peer.sendHeaders(3, OK);
    call.onEnded = () => {
      throw new Error("thrown by the test");
    };
    assert.throws(() => {
      peer.sendData(1, Buffer.from("x"), true);
    }, /thrown by the test/);
    peer.sendData(3, Buffer.from("y"));
    await peer.settled();
    assert.deepEqual(events, ["closed: in order"]);
    assert.equal(other.received.toString(), "");
    assert.equal(other.events.at(-1), "closed: connection closed");
    assert.equal(peer.socket.destroyed, true);
  });
});

describe("close()", () => {
  it("lets running requests finish, refuses new ones, and then ends the socket", async (t) => {
    const { peer, streams, connection, events, clock } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    connection.close();
    connection.close();
    peer.sendHeaders(3, REQUEST);
    assert.deepEqual(await peer.seen(), ["GOAWAY last 1 NO_ERROR", "RST_STREAM 3 REFUSED_STREAM"]);
    assert.equal(peer.socket.writableEnded, false);
    peer.sendData(1, Buffer.from("x"), true);
    streams[0]?.stream.sendHeaders(OK);
    streams[0]?.stream.write(Buffer.from("answer"));
    streams[0]?.stream.finish([["t", "1"]]);
    assert.deepEqual(await peer.seen(), [
      "HEADERS 1 :status=200",
      "DATA 1 of 6",
      "HEADERS 1 t=1 END_STREAM",
    ]);
    assert.deepEqual(events, ["closed: in order"]);
    assert.equal(streams[0]?.events.at(-1), "closed: finished");
    assert.equal(peer.socket.writableFinished, true);
    peer.socket.receiveEnd();
    await peer.settled();
    assert.equal(peer.socket.closed, true);
    assert.equal(clock.pendingTimers, 0);
  });

  it("ends a connection without requests behind its GOAWAY", async (t) => {
    const { peer, connection, events } = await openClient(t);
    connection.close();
    assert.deepEqual(events, []);
    assert.equal(connection.canRequest, false);
    assert.deepEqual(await peer.seen(), ["GOAWAY last 0 NO_ERROR"]);
    assert.deepEqual(events, ["closed: in order"]);
    assert.equal(peer.socket.writableFinished, true);
  });

  it("still sends what ends a client's last request", async (t) => {
    const { peer, connection, request, events } = await openClient(t);
    const call = request();
    connection.close();
    await peer.frames();
    peer.sendHeaders(1, OK, true);
    call.stream.write(Buffer.from("last words"));
    call.stream.end();
    assert.deepEqual(await peer.seen(), ["DATA 1 of 10 END_STREAM"]);
    assert.deepEqual(call.events.slice(-2), ["ended", "closed: finished"]);
    assert.deepEqual(events, ["closed: in order"]);
    assert.equal(peer.socket.errored, null);
    assert.equal(peer.socket.writableFinished, true);
  });

  it("tells the connection's owner after the owner of its last stream", async (t) => {
    const { peer, connection, request, events } = await openClient(t);
    const call = request();
    connection.close();
    await peer.frames();
    call.onClosed = () => {
      assert.deepEqual(events, []);
    };
    peer.sendReset(1, 8);
    assert.equal(call.events.length, 1);
    await peer.settled();
    assert.deepEqual(events, ["closed: in order"]);
  });

  it("called for the end of the last stream ends the connection", async (t) => {
    const { peer, connection, request, events } = await openClient(t);
    const call = request();
    call.onClosed = () => {
      connection.close();
    };
    call.stream.end();
    await peer.frames();
    peer.sendHeaders(1, OK, true);
    assert.deepEqual(await peer.seen(), ["GOAWAY last 0 NO_ERROR"]);
    assert.deepEqual(events, ["closed: in order"]);
  });

  it("waits until a peer that does not read has taken everything", async (t) => {
    const { peer, streams, connection, events } = await openServer(t);
    peer.sendHeaders(1, REQUEST, true);
    peer.socket.stall();
    streams[0]?.stream.sendHeaders(OK);
    streams[0]?.stream.write(Buffer.alloc(60_000));
    await peer.settled();
    streams[0]?.stream.finish([]);
    connection.close();
    await peer.settled();
    assert.equal(peer.socket.writableEnded, false);
    peer.socket.stall(false);
    assert.deepEqual((await peer.seen()).slice(-2), [
      "GOAWAY last 1 NO_ERROR",
      "HEADERS 1 END_STREAM",
    ]);
    assert.deepEqual(events, ["closed: in order"]);
    assert.equal(peer.socket.writableFinished, true);
  });

  it("gives a peer five seconds to take what is in front of the GOAWAY", async (t) => {
    const { peer, connection, events, clock } = await openClient(t);
    peer.socket.stall();
    connection.ping();
    await peer.settled();
    connection.close();
    await peer.settled();
    clock.advance(4_999);
    await peer.settled();
    assert.deepEqual([peer.socket.destroyed, events], [false, []]);
    clock.advance(1);
    await peer.settled();
    assert.deepEqual([peer.socket.destroyed, events], [true, ["closed: in order"]]);
    assert.equal(clock.pendingTimers, 0);
  });

  it("gives a peer that keeps its end open five seconds", async (t) => {
    const { peer, connection, clock } = await openClient(t);
    connection.close();
    await peer.settled();
    assert.equal(clock.pendingTimers, 1);
    clock.advance(4_999);
    assert.equal(peer.socket.destroyed, false);
    clock.advance(1);
    assert.equal(peer.socket.destroyed, true);
    assert.equal(clock.pendingTimers, 0);
    await peer.settled();
  });
});

describe("abort()", () => {
  it("tells the peer and every stream why, behind what waited to be said", async (t) => {
    const { peer, streams, connection, events, clock } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    streams[0]?.stream.sendHeaders(OK);
    streams[0]?.stream.write(Buffer.alloc(100));
    connection.abort(Http2ErrorCode.ENHANCE_YOUR_CALM, "enough");
    connection.abort(Http2ErrorCode.INTERNAL_ERROR, "again");
    connection.close();
    assert.deepEqual(await peer.seen(), [
      "HEADERS 1 :status=200",
      "GOAWAY last 1 ENHANCE_YOUR_CALM enough",
    ]);
    assert.equal(streams[0]?.events.at(-1), "closed: connection enough");
    assert.deepEqual(events, ["closed: enough"]);
    assert.equal(peer.socket.writableFinished, true);
    clock.advance(5_000);
    assert.equal(peer.socket.destroyed, true);
    assert.equal(clock.pendingTimers, 0);
  });

  it("without an error is an orderly end", async (t) => {
    const { peer, connection, events } = await openServer(t);
    connection.abort(Http2ErrorCode.NO_ERROR, "no request in time");
    assert.deepEqual(await peer.seen(), ["GOAWAY last 0 NO_ERROR no request in time"]);
    assert.deepEqual(events, ["closed: in order"]);
  });

  it("frees the socket of a peer that does not read within five seconds", async (t) => {
    const { peer, connection, clock } = await openServer(t);
    peer.socket.stall();
    connection.abort(Http2ErrorCode.INTERNAL_ERROR, "gone");
    await peer.settled();
    assert.equal(peer.socket.writableFinished, false);
    clock.advance(5_000);
    assert.equal(peer.socket.destroyed, true);
    await peer.settled();
    assert.equal(clock.pendingTimers, 0);
  });

  it("within the end of a stream does not write behind the end of the socket", async (t) => {
    const { peer, connection, streams, events } = await openServer(t);
    peer.sendHeaders(1, REQUEST, true);
    streams[0]!.onClosed = () => {
      connection.abort(Http2ErrorCode.NO_ERROR, "that was all");
    };
    streams[0]?.stream.sendHeaders(OK);
    streams[0]?.stream.write(Buffer.from("x"));
    streams[0]?.stream.end();
    const seen = await peer.seen();
    assert.equal(seen.at(-1), "GOAWAY last 1 NO_ERROR that was all");
    assert.equal(peer.socket.errored, null);
    assert.deepEqual(events, ["closed: in order"]);
  });

  it("ignores what the peer says afterwards", async (t) => {
    const { peer, connection, streams } = await openServer(t);
    connection.abort(Http2ErrorCode.NO_ERROR, "");
    await peer.frames();
    peer.sendHeaders(1, REQUEST);
    peer.sendPing("12345678");
    peer.socket.receive(Buffer.alloc(1_000, 0xff));
    assert.deepEqual(await peer.seen(), []);
    assert.equal(streams.length, 0);
  });
});

describe("destroy()", () => {
  it("says nothing to the peer, and why to every stream", async (t) => {
    const { peer, request, connection, events, clock } = await openClient(t);
    const call = request();
    connection.destroy(new Error("nothing heard"));
    connection.destroy();
    assert.equal(peer.socket.destroyed, true);
    assert.deepEqual(call.events, ["closed: connection nothing heard"]);
    assert.deepEqual(events, ["closed: nothing heard"]);
    assert.deepEqual((await peer.seen()).length, 0);
    assert.equal(clock.pendingTimers, 0);
  });

  it("by a stream's owner in the middle of what was received stops everything", async (t) => {
    const { peer, streams, connection, events } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    streams[0]!.onEnded = () => {
      connection.destroy();
    };
    peer.socket.receive(
      Buffer.concat([
        Buffer.from("000001000100000001", "hex"),
        Buffer.from("x"),
        peer.headersFrame(3, REQUEST),
        Buffer.alloc(100, 0xff),
      ]),
    );
    assert.deepEqual(streams[0]?.events.slice(-2), ["ended", "closed: connection closed"]);
    assert.equal(streams.length, 1);
    assert.deepEqual(events, ["closed: in order"]);
    await peer.settled();
  });
});

describe("the end of the socket", () => {
  it("by the peer ends every stream, but as no end of theirs", async (t) => {
    const { peer, streams, events } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    peer.socket.receiveEnd();
    await peer.settled();
    assert.deepEqual(streams[0]?.events.slice(1), ["closed: connection closed"]);
    assert.deepEqual(events, ["closed: in order"]);
    assert.equal(peer.socket.destroyed, true);
  });

  it("by a failure tells every stream which", async (t) => {
    const { peer, streams, events } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    peer.socket.destroy(new Error("read ECONNRESET"));
    await peer.settled();
    assert.deepEqual(streams[0]?.events.slice(1), ["closed: connection read ECONNRESET"]);
    assert.deepEqual(events, ["closed: read ECONNRESET"]);
  });

  it("before the connection was made is noticed", async () => {
    const socket = new MemorySocket();
    socket.once("error", () => undefined);
    socket.destroy(new Error("too late"));
    await new Promise((resolve) => socket.once("close", resolve));
    const told = await new Promise((resolve) => {
      const connection = new Http2Connection(socket.asSocket, "client", LIMITS, new ManualClock(), {
        request: () => assert.fail(),
        goaway: () => undefined,
        closed: (error) => {
          resolve(error?.message);
        },
      });
      assert.equal(connection.isClosed, false);
    });
    assert.equal(told, "too late");
  });

  it("is told to a request that comes too late for it", async (t) => {
    const { peer, request, connection } = await openClient(t);
    connection.destroy();
    const call = request();
    assert.equal(connection.canRequest, false);
    assert.deepEqual(call.events, []);
    await peer.settled();
    assert.deepEqual(call.events, ["closed: connection closed"]);
    assert.equal(connection.streamCount, 0);
  });

  it("leaves no streams behind, whatever was open", async (t) => {
    const { peer, request, connection, streams } = await openClient(
      t,
      {},
      { [Setting.INITIAL_WINDOW_SIZE]: 100 },
    );
    for (let count = 0; count < 20; count++) request().stream.write(Buffer.alloc(1_000));
    await peer.frames();
    peer.socket.destroy();
    await peer.settled();
    assert.equal(connection.streamCount, 0);
    for (const { events, stream } of streams) {
      assert.deepEqual(events, ["closed: connection closed"]);
      assert.equal(stream.queuedBytes, 0);
    }
  });
});
