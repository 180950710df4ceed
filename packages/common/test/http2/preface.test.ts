import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CLIENT_PREFACE, FrameFlag, FrameType, Setting } from "../../src/http2/frame.ts";
import { frameBytes, settingsPayload } from "./frames.ts";
import { REQUEST, openClient, openFreshServer, openServer } from "./raw-peer.ts";

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

describe("SETTINGS of the peer", () => {
  it("are acknowledged one by one", async (t) => {
    const { peer } = await openServer(t);
    peer.sendSettings();
    peer.sendSettings({ [Setting.HEADER_TABLE_SIZE]: 100 });
    assert.deepEqual(await peer.seen(), ["SETTINGS ack", "SETTINGS ack"]);
  });

  it("may hold ids that nobody knows", async (t) => {
    const { peer } = await openServer(t);
    peer.sendSettings({ 0: 1, 0x8: 1, 0xffff: 0xffff_ffff });
    assert.deepEqual(await peer.seen(), ["SETTINGS ack"]);
  });

  const broken: readonly (readonly [string, number, number, Buffer, string])[] = [
    ["of five bytes", 0, 0, Buffer.alloc(5), "FRAME_SIZE_ERROR"],
    ["of seven bytes", 0, 0, Buffer.alloc(7), "FRAME_SIZE_ERROR"],
    ["on a stream", 0, 1, Buffer.alloc(6), "PROTOCOL_ERROR"],
    ["acknowledged with a payload", 1, 0, Buffer.alloc(6), "FRAME_SIZE_ERROR"],
    ["with ENABLE_PUSH of 2", 0, 0, settingsPayload({ 2: 2 }), "PROTOCOL_ERROR"],
    ["with too large a window", 0, 0, settingsPayload({ 4: 2 ** 31 }), "FLOW_CONTROL_ERROR"],
    ["with too small a frame", 0, 0, settingsPayload({ 5: 16_383 }), "PROTOCOL_ERROR"],
    ["with too large a frame", 0, 0, settingsPayload({ 5: 2 ** 24 }), "PROTOCOL_ERROR"],
  ];
  for (const [what, flags, streamId, payload, code] of broken) {
    it(`end the connection with ${code} where they are ${what}`, async (t) => {
      const { peer, events } = await openServer(t);
      peer.send(FrameType.SETTINGS, flags, streamId, payload);
      const seen = await peer.seen();
      assert.equal(seen.length, 1);
      assert.ok(seen[0]?.startsWith(`GOAWAY last 0 ${code}`), seen[0]);
      assert.equal(events.length, 1);
    });
  }

  it("limit the frames of DATA", async (t) => {
    const { peer, request } = await openClient(t, {}, { [Setting.MAX_FRAME_SIZE]: 20_000 });
    request().stream.write(Buffer.alloc(45_000));
    assert.deepEqual((await peer.seen()).slice(1), [
      "DATA 1 of 20000",
      "DATA 1 of 20000",
      "DATA 1 of 5000",
    ]);
  });

  it("do not make frames of DATA larger than 65 KiB, since streams take turns by frames", async (t) => {
    const { peer, request } = await openClient(
      t,
      {},
      { [Setting.MAX_FRAME_SIZE]: 0xff_ffff, [Setting.INITIAL_WINDOW_SIZE]: 1_000_000 },
    );
    peer.sendWindowUpdate(0, 1_000_000);
    request().stream.write(Buffer.alloc(100_000));
    assert.deepEqual((await peer.seen()).slice(1), ["DATA 1 of 66560", "DATA 1 of 33440"]);
  });

  it("limit the frames of a header block, which goes on in CONTINUATION", async (t) => {
    const { peer, request } = await openClient(t);
    const long = "x".repeat(20_000);
    request([...REQUEST, ["a", long]]);
    const frames = await peer.frames();
    assert.deepEqual(
      frames.map(({ type, flags, streamId }) => [type, flags, streamId]),
      [
        [FrameType.HEADERS, 0, 1],
        [FrameType.CONTINUATION, FrameFlag.END_HEADERS, 1],
      ],
    );
    assert.equal(frames[0]?.payload.length, 16_384);
    assert.match(frames[1]?.text ?? "", /^CONTINUATION 1 :method=POST .* a=x{20000}$/);
  });

  it("take the dynamic table away when they set its size to 0", async (t) => {
    const { peer, request } = await openClient(t, {}, { [Setting.HEADER_TABLE_SIZE]: 0 });
    for (let count = 0; count < 3; count++) request([...REQUEST, ["a", "some value"]]);
    const frames = await peer.frames();
    // The first begins with the update to 0; then each block spells the field out again.
    assert.equal(frames[1]?.payload.length, frames[2]?.payload.length);
    assert.ok((frames[2]?.payload.length ?? 0) > 10);
    for (const frame of frames) assert.match(frame.text, / a=some value$/);
  });

  it("limit the requests that may be open", async (t) => {
    const limited = await openClient(t, {}, { [Setting.MAX_CONCURRENT_STREAMS]: 2 });
    const { peer, connection, request } = limited;
    request();
    assert.equal(connection.canRequest, true);
    request();
    assert.equal(connection.canRequest, false);
    peer.sendReset(1, 8);
    assert.equal(connection.canRequest, true);
    peer.sendSettings({ [Setting.MAX_CONCURRENT_STREAMS]: 0 });
    assert.equal(connection.canRequest, false);
    await peer.settled();
  });
});
