import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FrameFlag, FrameType, Setting } from "../../src/http2/frame.ts";
import { frameBytes, settingsPayload, uint32 } from "./frames.ts";
import { REQUEST, openServer } from "./raw-peer.ts";

const PING = frameBytes(FrameType.PING, 0, 0, Buffer.from("12345678"));

function repeated(frame: Buffer, count: number): Buffer {
  return Buffer.concat(Array.from({ length: count }, () => frame));
}

/** 32768 requests that have to be refused, with ids from `firstId` on. */
function requests(firstId: number): Buffer {
  // Index 2, 6 and 4 of the static table: GET http /.
  const block = Buffer.from("828684", "hex");
  const flags = FrameFlag.END_HEADERS | FrameFlag.END_STREAM;
  return Buffer.concat(
    Array.from({ length: 0x8000 }, (_, at) =>
      frameBytes(FrameType.HEADERS, flags, firstId + 2 * at, block),
    ),
  );
}

describe("a flood", () => {
  it("of PINGs is answered as long as the answers are read", async (t) => {
    const { peer, connection } = await openServer(t);
    for (let count = 0; count < 100; count++) {
      peer.socket.receive(repeated(PING, 1_000));
      assert.equal((await peer.frames()).length, 1_000);
    }
    assert.equal(connection.isClosed, false);
  });

  const unread: readonly (readonly [string, (round: number) => Buffer])[] = [
    ["PINGs", () => repeated(PING, 0x4000)],
    ["SETTINGS", () => repeated(frameBytes(FrameType.SETTINGS, 0, 0), 0x4000)],
    [
      "SETTINGS that say something",
      () => {
        const payload = settingsPayload({ [Setting.INITIAL_WINDOW_SIZE]: 5 });
        return repeated(frameBytes(FrameType.SETTINGS, 0, 0, payload), 0x4000);
      },
    ],
    ["requests beyond the limit", (round) => requests(1 + round * 0x1_0000)],
  ];
  for (const [what, bytes] of unread) {
    it(`of ${what} whose answers are not read ends the connection`, async (t) => {
      const { peer, connection, events, clock } = await openServer(t, { maxStreams: 0 });
      peer.socket.stall();
      for (let round = 0; round < 10 && !connection.isClosed; round++) {
        peer.socket.receive(bytes(round));
        // What may wait: a mebibyte of answers, and the one write that is under way.
        assert.ok(peer.socket.writableLength <= 2 * 1024 * 1024);
        await new Promise((resolve) => setImmediate(resolve));
      }
      assert.deepEqual(events, ["closed: the peer reads no answers"]);
      assert.equal(peer.socket.destroyed, true);
      await peer.settled();
      assert.equal(clock.pendingTimers, 0);
    });
  }

  it("of empty DATA ends the connection after a thousand in a row", async (t) => {
    const { peer, events } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    const empty = frameBytes(FrameType.DATA, 0, 1);
    peer.socket.receive(repeated(empty, 1_000));
    peer.sendData(1, Buffer.from("x"));
    peer.socket.receive(repeated(empty, 1_000));
    assert.deepEqual(await peer.seen(), []);
    peer.socket.receive(empty);
    assert.deepEqual(await peer.seen(), [
      "GOAWAY last 1 ENHANCE_YOUR_CALM too many empty DATA frames",
    ]);
    assert.equal(events.length, 1);
  });

  it("is not what ten thousand requests are that end with empty DATA", async (t) => {
    const { peer, streams, connection } = await openServer(t);
    for (let count = 0; count < 10_000; count++) {
      const streamId = 2 * count + 1;
      peer.sendHeaders(streamId, REQUEST);
      peer.sendData(streamId, Buffer.alloc(0), true);
      streams.at(-1)?.stream.sendHeaders([[":status", "200"]], true);
      if (count % 500 === 0) await peer.frames();
    }
    assert.equal(connection.isClosed, false);
    assert.equal(streams.length, 10_000);
    assert.equal(connection.streamCount, 0);
    await peer.settled();
  });

  it("is not what ten thousand requests are that the peer resets in a row", async (t) => {
    const { peer, streams, connection } = await openServer(t);
    const parts: Buffer[] = [];
    for (let count = 0; count < 10_000; count++) {
      const streamId = 2 * count + 1;
      parts.push(
        peer.headersFrame(streamId, REQUEST),
        frameBytes(FrameType.RST_STREAM, 0, streamId, uint32(8)),
      );
    }
    peer.socket.receive(Buffer.concat(parts));
    assert.deepEqual(await peer.seen(), []);
    assert.equal(streams.length, 10_000);
    assert.equal(connection.streamCount, 0);
    peer.sendHeaders(20_001, REQUEST, true);
    assert.equal(streams.length, 10_001);
    await peer.settled();
  });

  it("of CONTINUATION ends the connection by their number", async (t) => {
    const { peer, events } = await openServer(t);
    peer.send(FrameType.HEADERS, 0, 1, peer.block(REQUEST));
    peer.socket.receive(repeated(frameBytes(FrameType.CONTINUATION, 0, 1), 100));
    assert.deepEqual(await peer.seen(), ["GOAWAY last 0 ENHANCE_YOUR_CALM header block too large"]);
    assert.equal(events.length, 1);
  });

  it("of CONTINUATION ends the connection by their bytes", async (t) => {
    const { peer, events } = await openServer(t, { maxHeaderListBytes: 8_192 });
    peer.send(FrameType.HEADERS, 0, 1, Buffer.alloc(16_000));
    assert.deepEqual(events, []);
    peer.send(FrameType.CONTINUATION, 0, 1, Buffer.alloc(1_000));
    assert.deepEqual(await peer.seen(), ["GOAWAY last 0 ENHANCE_YOUR_CALM header block too large"]);
  });

  it("of references to one large header field is answered with 431 (a compression bomb)", async (t) => {
    const { peer, streams, connection } = await openServer(t, { maxHeaderListBytes: 8_192 });
    // `a` with 3000 bytes enters the table; then it is referred to four thousand times.
    const value = Buffer.alloc(3_000, "v");
    const literal = Buffer.concat([
      Buffer.from("4001617f", "hex"),
      Buffer.from([0xb9, 0x16]),
      value,
    ]);
    const block = Buffer.concat([Buffer.from("838684", "hex"), literal, Buffer.alloc(4_000, 0xbe)]);
    peer.send(FrameType.HEADERS, FrameFlag.END_HEADERS | FrameFlag.END_STREAM, 1, block);
    assert.deepEqual(await peer.seen(), ["HEADERS 1 :status=431 END_STREAM"]);
    assert.equal(streams.length, 0);
    assert.equal(connection.isClosed, false);
  });
});
