import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CLIENT_PREFACE, FrameFlag, FrameType } from "../../src/http2/frame.ts";
import { frameBytes } from "./frames.ts";
import { REQUEST, openClient, openFreshServer } from "./raw-peer.ts";

const SETTINGS = frameBytes(FrameType.SETTINGS, 0, 0);

describe("the beginning of a connection", () => {
  it("is a server's settings and its larger window, unasked and in one write", async (t) => {
    const { peer } = openFreshServer(t);
    assert.deepEqual(await peer.seen(), [
      "SETTINGS MAX_CONCURRENT_STREAMS=100 INITIAL_WINDOW_SIZE=100000 MAX_FRAME_SIZE=16384 MAX_HEADER_LIST_SIZE=8192",
      "WINDOW_UPDATE 0 +934465",
    ]);
    assert.equal(peer.socket.writes.length, 1);
  });

  it("is a client's preface, its settings and its larger window", async (t) => {
    const { peer } = await openClient(t);
    assert.ok(peer.socket.written.subarray(0, 24).equals(CLIENT_PREFACE));
    assert.match(peer.socket.written.toString("latin1"), /^PRI \* HTTP\/2.0\r\n\r\nSM\r\n\r\n/);
  });

  it("holds a client's request before the server has said anything", async (t) => {
    const { peer, request } = await openClient(t);
    request();
    assert.deepEqual(await peer.seen(), ["HEADERS 1 :method=POST :scheme=http :path=/"]);
  });

  it("leaves the window alone where it is to be the one that every connection has", async (t) => {
    const { peer } = openFreshServer(t, { connectionWindowBytes: 65_535 });
    assert.equal((await peer.seen()).length, 1);
  });

  it("is read in pieces of any size", async (t) => {
    const { peer, streams, connection } = openFreshServer(t);
    const bytes = Buffer.concat([CLIENT_PREFACE, SETTINGS, peer.headersFrame(1, REQUEST)]);
    for (const byte of bytes) peer.socket.receive(Buffer.from([byte]));
    assert.equal(connection.established, true);
    assert.equal(streams.length, 1);
    assert.equal((await peer.seen()).at(-1), "SETTINGS ack");
  });

  it("is established by the peer's settings, not before", async (t) => {
    const { peer, connection } = openFreshServer(t);
    peer.socket.receive(CLIENT_PREFACE);
    assert.equal(connection.established, false);
    peer.socket.receive(SETTINGS);
    assert.equal(connection.established, true);
    await peer.settled();
  });

  const strangers: readonly (readonly [string, Buffer])[] = [
    ["an HTTP/1.1 request", Buffer.from("GET / HTTP/1.1\r\nHost: a\r\n\r\n")],
    ["one byte of garbage", Buffer.from([0])],
    ["a TLS ClientHello", Buffer.from("160301020001", "hex")],
    ["a preface with a wrong end", Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r")],
    ["another version", Buffer.from("PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n")],
  ];
  for (const [what, bytes] of strangers) {
    for (const size of [1, bytes.length]) {
      it(`answers ${what} with GOAWAY and closes (${size} bytes at a time)`, async (t) => {
        const { peer, events, clock } = openFreshServer(t);
        await peer.frames();
        for (let at = 0; at < bytes.length; at += size) {
          peer.socket.receive(bytes.subarray(at, at + size));
        }
        assert.deepEqual(await peer.seen(), [
          "GOAWAY last 0 PROTOCOL_ERROR this port speaks HTTP/2 only",
        ]);
        assert.deepEqual(events, ["closed: this port speaks HTTP/2 only"]);
        assert.equal(peer.socket.writableFinished, true);
        peer.socket.receiveEnd();
        await peer.settled();
        assert.equal(peer.socket.closed, true);
        assert.equal(clock.pendingTimers, 0);
      });
    }
  }

  const notSettings: readonly (readonly [string, Buffer])[] = [
    ["HEADERS", frameBytes(FrameType.HEADERS, FrameFlag.END_HEADERS, 1)],
    ["DATA", frameBytes(FrameType.DATA, 0, 1)],
    ["PING", frameBytes(FrameType.PING, 0, 0, Buffer.alloc(8))],
    ["WINDOW_UPDATE", frameBytes(FrameType.WINDOW_UPDATE, 0, 0, Buffer.from([0, 0, 0, 1]))],
    ["an acknowledgement", frameBytes(FrameType.SETTINGS, FrameFlag.ACK, 0)],
    ["a frame of unknown type", frameBytes(0xfa, 0, 0)],
  ];
  for (const [what, frame] of notSettings) {
    it(`may not be ${what}`, async (t) => {
      const { peer, connection } = openFreshServer(t);
      await peer.frames();
      peer.socket.receive(CLIENT_PREFACE, frame);
      assert.match((await peer.seen()).join(), /^GOAWAY last 0 PROTOCOL_ERROR /);
      assert.equal(connection.isClosed, true);
    });
  }
});
