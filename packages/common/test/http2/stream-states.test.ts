import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HeaderList } from "../../src/hpack/header-list.ts";
import { FrameFlag, FrameType } from "../../src/http2/frame.ts";
import { frameBytes, padded, uint32 } from "./frames.ts";
import { REQUEST, openClient, openServer } from "./raw-peer.ts";
import type { RawPeer } from "./raw-peer.ts";

const OK: HeaderList = [[":status", "200"]];
const TRAILERS: HeaderList = [["t", "1"]];
const REQUEST_EVENT = "headers :method=POST :scheme=http :path=/";

/** What a server's stream is told, and what it sends, for requests of every shape. */
describe("a request", () => {
  it("is told in the order of the wire and ends with END_STREAM", async (t) => {
    const { peer, streams, connection } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    peer.sendData(1, Buffer.from("body"));
    peer.sendHeaders(1, TRAILERS, true);
    const [stream] = streams;
    assert.deepEqual(stream?.events, [REQUEST_EVENT, "headers t=1 END_STREAM", "ended"]);
    assert.equal(stream.received.toString(), "body");
    assert.equal(stream.stream.remoteOpen, false);
    stream.stream.sendHeaders(OK);
    stream.stream.finish([["grpc-status", "0"]]);
    assert.deepEqual(await peer.seen(), [
      "HEADERS 1 :status=200",
      "HEADERS 1 grpc-status=0 END_STREAM",
    ]);
    assert.equal(stream.events.at(-1), "closed: finished");
    assert.equal(connection.streamCount, 0);
  });

  it("may be nothing but its headers", async (t) => {
    const { peer, streams } = await openServer(t);
    peer.sendHeaders(1, REQUEST, true);
    assert.deepEqual(streams[0]?.events, [`${REQUEST_EVENT} END_STREAM`, "ended"]);
    streams[0].stream.sendHeaders(OK, true);
    assert.deepEqual(await peer.seen(), ["HEADERS 1 :status=200 END_STREAM"]);
    assert.equal(streams[0].events.at(-1), "closed: finished");
  });

  it("that is still going on is told that nobody listens, behind the whole answer", async (t) => {
    const { peer, streams } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    streams[0]?.stream.sendHeaders(OK);
    streams[0]?.stream.write(Buffer.from("answer"));
    streams[0]?.stream.finish(TRAILERS);
    assert.deepEqual(await peer.seen(), [
      "HEADERS 1 :status=200",
      "DATA 1 of 6",
      "HEADERS 1 t=1 END_STREAM",
      "RST_STREAM 1 NO_ERROR",
    ]);
    assert.equal(streams[0]?.events.at(-1), "closed: finished");
  });

  it("can be answered with END_STREAM while it goes on", async (t) => {
    const { peer, streams } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    streams[0]?.stream.sendHeaders(OK);
    streams[0]?.stream.end();
    assert.deepEqual((await peer.seen()).at(-1), "DATA 1 of 0 END_STREAM");
    peer.sendData(1, Buffer.from("more"), true);
    assert.deepEqual(streams[0]?.events.slice(1), ["ended", "closed: finished"]);
    assert.equal(streams[0].received.toString(), "more");
  });

  it("may have its headers padded, with priority, and cut into many frames", async (t) => {
    const { peer, streams } = await openServer(t);
    const block = peer.block(REQUEST);
    const priority = Buffer.concat([uint32(0x8000_0000), Buffer.from([255])]);
    const first = Buffer.concat([priority, block.subarray(0, 1)]);
    const flags = FrameFlag.PADDED | FrameFlag.PRIORITY | FrameFlag.END_STREAM;
    peer.send(FrameType.HEADERS, flags, 1, padded(first, 200));
    for (let at = 1; at < block.length; at++) {
      const isLast = at === block.length - 1;
      peer.send(
        FrameType.CONTINUATION,
        isLast ? FrameFlag.END_HEADERS : 0,
        1,
        block.subarray(at, at + 1),
      );
    }
    assert.deepEqual(streams[0]?.events, [`${REQUEST_EVENT} END_STREAM`, "ended"]);
    await peer.settled();
  });

  it("may be followed by PRIORITY and by frames of unknown type", async (t) => {
    const { peer, streams } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    peer.send(FrameType.PRIORITY, 0, 1, Buffer.alloc(5));
    peer.send(FrameType.PRIORITY, 0, 99, Buffer.alloc(5));
    peer.send(0xb, 0xff, 1, Buffer.from("whatever"));
    peer.sendData(1, Buffer.from("x"), true);
    assert.deepEqual(streams[0]?.events, [REQUEST_EVENT, "ended"]);
    assert.deepEqual(await peer.seen(), []);
  });

  it("may skip ids", async (t) => {
    const { peer, streams } = await openServer(t);
    peer.sendHeaders(7, REQUEST, true);
    peer.sendHeaders(0x7fff_ffff, REQUEST, true);
    assert.equal(streams.length, 2);
    await peer.settled();
  });

  const malformed: readonly (readonly [string, HeaderList])[] = [
    ["without a path", REQUEST.slice(0, 2)],
    ["with a status", [...REQUEST, [":status", "200"]]],
    ["with upper case in a name", [...REQUEST, ["Te", "trailers"]]],
    ["with `connection`", [...REQUEST, ["connection", "close"]]],
    ["with a line break in a value", [...REQUEST, ["a", "b\r\nc: d"]]],
  ];
  for (const [what, headers] of malformed) {
    it(`${what} is reset, and nothing else`, async (t) => {
      const { peer, streams } = await openServer(t);
      peer.sendHeaders(1, headers);
      peer.sendData(1, Buffer.from("body of it"));
      peer.sendHeaders(3, REQUEST, true);
      assert.deepEqual(await peer.seen(), ["RST_STREAM 1 PROTOCOL_ERROR"]);
      assert.equal(streams.length, 1);
    });
  }

  it("beyond the limit of streams is refused, and nothing else", async (t) => {
    const { peer, streams } = await openServer(t, { maxStreams: 2 });
    peer.sendHeaders(1, REQUEST);
    peer.sendHeaders(3, REQUEST);
    peer.sendHeaders(5, REQUEST);
    peer.sendData(5, Buffer.from("body of it"));
    assert.deepEqual(await peer.seen(), ["RST_STREAM 5 REFUSED_STREAM"]);
    peer.sendReset(1, 8);
    peer.sendHeaders(7, REQUEST);
    assert.deepEqual(await peer.seen(), []);
    assert.deepEqual(
      streams.map(({ stream }) => stream.id),
      [1, 3, 7],
    );
  });

  it("with too large a header list is answered with 431, and nothing else", async (t) => {
    const { peer, streams } = await openServer(t, { maxHeaderListBytes: 8_192 });
    const large: HeaderList = [...REQUEST, ["a", "x".repeat(8_192)]];
    peer.sendHeaders(1, large, true);
    peer.sendHeaders(3, large);
    peer.sendData(3, Buffer.from("body of it"), true);
    peer.sendHeaders(5, REQUEST, true);
    assert.deepEqual(await peer.seen(), [
      "HEADERS 1 :status=431 END_STREAM",
      "HEADERS 3 :status=431 END_STREAM",
      "RST_STREAM 3 NO_ERROR",
    ]);
    assert.deepEqual(streams.length, 1);
  });

  it("with trailers that are too large is reset", async (t) => {
    const { peer, streams } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    peer.sendHeaders(1, [["a", "x".repeat(8_192)]], true);
    assert.deepEqual(await peer.seen(), ["RST_STREAM 1 ENHANCE_YOUR_CALM"]);
    assert.equal(streams[0]?.events.at(-1), "closed: reset by us ENHANCE_YOUR_CALM");
  });

  it("that is over while its owner is being made tells that owner", async (t) => {
    const server = await openServer(t);
    server.onRequest = ({ stream }) => {
      stream.sendHeaders(OK, true);
    };
    server.peer.sendHeaders(1, REQUEST, true);
    assert.deepEqual(server.streams[0]?.events, [
      `${REQUEST_EVENT} END_STREAM`,
      "closed: finished",
    ]);
    assert.deepEqual(await server.peer.seen(), ["HEADERS 1 :status=200 END_STREAM"]);
  });
});

describe("a response", () => {
  it("is told in the order of the wire", async (t) => {
    const { peer, request } = await openClient(t);
    const call = request();
    peer.sendHeaders(1, OK);
    peer.sendData(1, Buffer.from("body"));
    peer.sendHeaders(1, TRAILERS, true);
    assert.deepEqual(call.events, ["headers :status=200", "headers t=1 END_STREAM", "ended"]);
    assert.equal(call.received.toString(), "body");
    call.stream.end();
    assert.equal((await peer.seen()).at(-1), "DATA 1 of 0 END_STREAM");
    assert.equal(call.events.at(-1), "closed: finished");
  });

  it("may be preceded by informational ones, which are passed over", async (t) => {
    const { peer, request } = await openClient(t);
    const call = request();
    peer.sendHeaders(1, [
      [":status", "103"],
      ["link", "x"],
    ]);
    peer.sendHeaders(1, [[":status", "100"]]);
    peer.sendHeaders(1, OK, true);
    assert.deepEqual(call.events, ["headers :status=200 END_STREAM", "ended"]);
    await peer.settled();
  });

  const broken: readonly (readonly [string, (peer: RawPeer) => void])[] = [
    [
      "begins with DATA",
      (peer) => {
        peer.sendData(1, Buffer.from("x"));
      },
    ],
    [
      "has no status",
      (peer) => {
        peer.sendHeaders(1, [["a", "b"]]);
      },
    ],
    [
      "ends with an informational one",
      (peer) => {
        peer.sendHeaders(1, [[":status", "100"]], true);
      },
    ],
    [
      "has trailers without an end",
      (peer) => {
        peer.sendHeaders(1, OK);
        peer.sendHeaders(1, TRAILERS);
      },
    ],
    [
      "has a status in its trailers",
      (peer) => {
        peer.sendHeaders(1, OK);
        peer.sendHeaders(1, OK, true);
      },
    ],
  ];
  for (const [what, send] of broken) {
    it(`that ${what} is reset, and nothing else`, async (t) => {
      const { peer, request, connection } = await openClient(t);
      const [call, other] = [request(), request()];
      await peer.frames();
      send(peer);
      assert.deepEqual(await peer.seen(), ["RST_STREAM 1 PROTOCOL_ERROR"]);
      assert.equal(call.events.at(-1), "closed: reset by us PROTOCOL_ERROR");
      assert.equal(connection.isClosed, false);
      peer.sendHeaders(3, OK, true);
      assert.equal(other.events.at(-1), "ended");
    });
  }

  it("that comes whole can be left with an empty END_STREAM, whatever still waits", async (t) => {
    const { peer, request, connection } = await openClient(t);
    const call = request();
    call.onEnded = () => {
      call.stream.leave();
    };
    await peer.frames();
    call.stream.write(Buffer.alloc(1_000_000));
    await peer.frames();
    assert.ok(call.stream.queuedBytes > 0);
    peer.sendHeaders(1, OK, true);
    assert.deepEqual(call.events.slice(-2), ["ended", "closed: finished"]);
    assert.equal(connection.streamCount, 0);
    assert.deepEqual(await peer.seen(), ["DATA 1 of 0 END_STREAM"]);
  });

  it("leaves alone a stream that is left before the peer has finished, or twice", async (t) => {
    const { peer, request } = await openClient(t);
    const call = request();
    call.stream.leave();
    assert.deepEqual(call.events, []);
    peer.sendHeaders(1, OK, true);
    call.stream.leave();
    call.stream.leave();
    assert.deepEqual((await peer.seen()).slice(1), ["DATA 1 of 0 END_STREAM"]);
    assert.deepEqual(call.events.slice(-1), ["closed: finished"]);
  });
});

describe("a reset", () => {
  it("by the peer ends a stream at once, and drops what waits", async (t) => {
    const { peer, streams, connection } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    streams[0]?.stream.sendHeaders(OK);
    streams[0]?.stream.write(Buffer.alloc(10));
    peer.sendReset(1, 8);
    assert.equal(streams[0]?.events.at(-1), "closed: reset by peer CANCEL");
    assert.equal(connection.streamCount, 0);
    assert.deepEqual(await peer.seen(), ["HEADERS 1 :status=200"]);
  });

  it("by the peer behind its trailers changes nothing", async (t) => {
    const { peer, request } = await openClient(t);
    const call = request();
    call.stream.end();
    await peer.frames();
    peer.sendHeaders(1, OK);
    peer.sendHeaders(1, TRAILERS, true);
    peer.sendReset(1, 0);
    assert.deepEqual(call.events.slice(-2), ["ended", "closed: finished"]);
    assert.deepEqual(await peer.seen(), []);
  });

  it("by the peer behind its trailers, in one piece, ends a request that goes on", async (t) => {
    const { peer, request } = await openClient(t);
    const call = request();
    await peer.frames();
    peer.socket.receive(
      Buffer.concat([
        peer.headersFrame(1, OK),
        peer.headersFrame(1, TRAILERS, true),
        frameBytes(FrameType.RST_STREAM, 0, 1, uint32(0)),
      ]),
    );
    assert.deepEqual(call.events.slice(-2), ["ended", "closed: reset by peer NO_ERROR"]);
    assert.deepEqual(await peer.seen(), []);
  });

  it("by the peer in one piece with the request leaves nothing behind", async (t) => {
    const { peer, streams, connection } = await openServer(t);
    peer.socket.receive(
      Buffer.concat([
        peer.headersFrame(1, REQUEST),
        frameBytes(FrameType.DATA, 0, 1, Buffer.from("x")),
        frameBytes(FrameType.RST_STREAM, 0, 1, uint32(8)),
      ]),
    );
    assert.deepEqual(streams[0]?.events, [REQUEST_EVENT, "closed: reset by peer CANCEL"]);
    assert.equal(connection.streamCount, 0);
    await peer.settled();
  });

  it("by us drops what waits, and whatever of the stream was on its way", async (t) => {
    const { peer, streams, connection } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    streams[0]?.stream.write(Buffer.alloc(10));
    streams[0]?.stream.reset(2);
    streams[0]?.stream.reset(3);
    streams[0]?.stream.write(Buffer.alloc(10));
    streams[0]?.stream.end();
    streams[0]?.stream.sendHeaders(OK);
    peer.sendData(1, Buffer.from("late"));
    peer.sendWindowUpdate(1, 5);
    peer.sendHeaders(1, TRAILERS, true);
    peer.sendReset(1, 8);
    assert.deepEqual(await peer.seen(), ["RST_STREAM 1 INTERNAL_ERROR"]);
    assert.deepEqual(streams[0]?.events, [REQUEST_EVENT, "closed: reset by us INTERNAL_ERROR"]);
    assert.equal(streams[0].received.length, 0);
    assert.equal(connection.isClosed, false);
  });

  it("by us keeps the header compression in step", async (t) => {
    const { peer, streams } = await openServer(t);
    peer.send(FrameType.HEADERS, 4, 1, Buffer.from("838684", "hex"));
    streams[0]?.stream.reset(8);
    // Trailers that enter the peer's dynamic table although nobody wants them any more.
    peer.send(FrameType.HEADERS, 5, 1, Buffer.from("40016101" + "62", "hex"));
    peer.send(FrameType.HEADERS, 5, 3, Buffer.from("838684be", "hex"));
    assert.deepEqual(
      streams[1]?.events[0],
      "headers :method=POST :scheme=http :path=/ a=b END_STREAM",
    );
    await peer.settled();
  });

  it("within a callback stops everything that would have followed", async (t) => {
    const { peer, request } = await openClient(t);
    const call = request();
    call.onEnded = () => {
      call.stream.reset(8);
    };
    call.stream.end();
    await peer.frames();
    peer.sendHeaders(1, OK, true);
    assert.deepEqual(call.events.slice(-2), ["ended", "closed: reset by us CANCEL"]);
    await peer.settled();
  });
});

describe("a stream that the peer has finished", () => {
  for (const [what, send] of [
    [
      "DATA",
      (peer: RawPeer) => {
        peer.sendData(1, Buffer.from("x"));
      },
    ],
    [
      "empty DATA",
      (peer: RawPeer) => {
        peer.sendData(1, Buffer.alloc(0));
      },
    ],
    [
      "HEADERS",
      (peer: RawPeer) => {
        peer.sendHeaders(1, TRAILERS, true);
      },
    ],
  ] as const) {
    it(`is reset for more ${what}, and nothing else`, async (t) => {
      const { peer, streams, connection } = await openServer(t);
      peer.sendHeaders(1, REQUEST, true);
      send(peer);
      assert.deepEqual(await peer.seen(), ["RST_STREAM 1 STREAM_CLOSED"]);
      assert.equal(streams[0]?.events.at(-1), "closed: reset by us STREAM_CLOSED");
      assert.equal(connection.isClosed, false);
    });
  }

  it("still takes WINDOW_UPDATE and PRIORITY", async (t) => {
    const { peer, streams } = await openServer(t);
    peer.sendHeaders(1, REQUEST, true);
    peer.sendWindowUpdate(1, 10);
    peer.send(FrameType.PRIORITY, 0, 1, Buffer.alloc(5));
    assert.deepEqual(await peer.seen(), []);
    assert.equal(streams[0]?.stream.isClosed, false);
  });
});
