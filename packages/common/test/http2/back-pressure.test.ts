import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HeaderList } from "../../src/hpack/header-list.ts";
import { FrameType, Setting } from "../../src/http2/frame.ts";
import { PIECE_BYTES } from "../../src/piece-bytes.ts";
import type { Frame } from "./frames.ts";
import { REQUEST, openClient, openServer } from "./raw-peer.ts";
import type { RawPeer, TestConnection } from "./raw-peer.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const OK: HeaderList = [[":status", "200"]];

/** What a DATA packet has in front of its payload, at most. */
const PACKET_HEAD_BYTES = 26;

/** What TLS 1.3 adds to each record (RFC 8446 section 5.2), with AES-GCM or ChaCha20-Poly1305. */
const TLS_RECORD_BYTES = 22;

/** What the kernel sends as one: as many of Ethernet's 1,448 bytes with timestamps as 64 KiB hold. */
const SEGMENT_BYTES = 45 * 1_448;

/** The peer's windows hold nothing up in these tests. */
const WIDE = { [Setting.INITIAL_WINDOW_SIZE]: 0x7fff_ffff };

async function openWide(
  t: Parameters<typeof openClient>[0],
  frameBytes = 16 * KIB,
  localAddress?: string,
): Promise<TestConnection> {
  const settings = { ...WIDE, [Setting.MAX_FRAME_SIZE]: frameBytes };
  const opened = await openClient(t, {}, settings, localAddress);
  opened.peer.sendWindowUpdate(0, 1_000 * MIB);
  return opened;
}

/** Bytes that tell where they belong. */
function numbered(length: number, start = 0): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; at++) bytes[at] = (start + at) % 251;
  return bytes;
}

function bodyOf(frames: readonly Frame[], streamId: number): Buffer {
  return Buffer.concat(
    frames
      .filter((frame) => frame.type === FrameType.DATA && frame.streamId === streamId)
      .map(({ payload }) => payload),
  );
}

/** Let the peer take writes one by one until the connection has no more. */
async function takeAll(peer: RawPeer): Promise<Frame[]> {
  const frames: Frame[] = [];
  for (let next = await peer.frames(); next.length > 0; next = await peer.frames()) {
    frames.push(...next);
    peer.socket.takeWrite();
  }
  return frames;
}

describe("a peer that does not read", () => {
  it("costs no more than one batch, however much there is to send", async (t) => {
    const { peer, request } = await openWide(t);
    const calls = Array.from({ length: 10 }, () => request());
    await peer.frames();
    peer.socket.stall();
    for (const { stream } of calls) stream.write(Buffer.alloc(1 * MIB));
    await peer.settled();
    const handed = peer.socket.writes.at(-1)!.reduce((sum, { length }) => sum + length, 0);
    assert.ok(handed >= 256 * KIB && handed <= 257 * KIB, `${handed} bytes`);
    assert.ok(peer.socket.writableLength <= handed);
    assert.equal(
      calls.reduce((sum, { stream }) => sum + stream.queuedBytes, 0) > 10 * MIB - handed,
      true,
    );
  });

  it("gets over TCP what fits two segments of the kernel's at a time, and pieces uncut", async (t) => {
    const { peer, request } = await openWide(t, 1 * MIB, "192.0.2.1");
    const { stream } = request();
    await peer.frames();
    peer.socket.stall();
    for (let piece = 0; piece < 9; piece++) {
      stream.write(Buffer.alloc(PACKET_HEAD_BYTES), Buffer.alloc(PIECE_BYTES));
    }
    const writesBefore = peer.socket.writes.length;
    const frames = await takeAll(peer);
    assert.deepEqual(
      frames.map(({ payload }) => payload.length - PIECE_BYTES),
      Array.from({ length: 9 }, () => PACKET_HEAD_BYTES),
    );
    const writes = peer.socket.writes.slice(writesBefore);
    assert.equal(writes.length, 9);
    for (const buffers of writes) {
      const bytes = Buffer.concat(buffers).length;
      const records = Math.ceil(bytes / (16 * KIB));
      assert.ok(bytes + records * TLS_RECORD_BYTES <= 2 * SEGMENT_BYTES, `${bytes} bytes`);
    }
  });

  it("gets pieces uncut behind one that was cut where it was read", async (t) => {
    const { peer, request } = await openWide(t, 1 * MIB, "192.0.2.1");
    const { stream } = request();
    await peer.frames();
    peer.socket.stall();
    const pieces = [
      20 * KIB,
      PIECE_BYTES,
      48 * KIB,
      PIECE_BYTES,
      PIECE_BYTES,
      1 * KIB,
      PIECE_BYTES,
    ];
    for (const bytes of pieces) stream.write(Buffer.alloc(PACKET_HEAD_BYTES), Buffer.alloc(bytes));
    const frames = await takeAll(peer);
    assert.deepEqual(
      frames.map(({ payload }) => payload.length - PACKET_HEAD_BYTES),
      pieces,
    );
  });

  it("gets everything in order once it reads again, batch by batch", async (t) => {
    const { peer, request } = await openWide(t);
    const calls = [request(), request(), request()];
    await peer.frames();
    peer.socket.stall();
    for (const { stream } of calls) {
      for (let at = 0; at < 700_000; at += 70_000) stream.write(numbered(70_000, at + stream.id));
      stream.end();
    }
    const frames = await takeAll(peer);
    for (const { stream } of calls) {
      assert.ok(bodyOf(frames, stream.id).equals(numbered(700_000, stream.id)));
      const last = frames.filter(({ streamId }) => streamId === stream.id).at(-1);
      assert.match(last?.text ?? "", / END_STREAM$/);
    }
  });

  it("gets PING's answer ahead of all the data that waits", async (t) => {
    const { peer, request } = await openWide(t);
    const { stream } = request();
    await peer.frames();
    peer.socket.stall();
    stream.write(Buffer.alloc(1 * MIB));
    await peer.frames();
    peer.sendPing("question");
    assert.deepEqual(await peer.frames(), []);
    peer.socket.takeWrite();
    assert.equal((await peer.seen())[0], "PING ack 7175657374696f6e");
  });

  it("holds nothing back from a peer that reads: a connection is one of many", async (t) => {
    const blocked = await openWide(t);
    const free = await openWide(t);
    blocked.peer.socket.stall();
    blocked.request().stream.write(Buffer.alloc(1 * MIB));
    const { stream } = free.request();
    stream.write(Buffer.alloc(1 * MIB));
    assert.equal(bodyOf(await free.peer.frames(), stream.id).length, 1 * MIB);
  });
});

describe("write()", () => {
  it("says stop at the high-water mark, and drained once when half of that is left", async (t) => {
    const { peer, request } = await openClient(t, { writeHighWaterBytes: 1_000 });
    const call = request();
    await peer.frames();
    // Use up the window, so that the peer decides how much leaves.
    assert.equal(call.stream.write(Buffer.alloc(65_535)), false);
    await peer.frames();
    peer.sendWindowUpdate(0, 1_000_000);
    assert.deepEqual(call.events, ["drained"]);
    assert.equal(call.stream.write(Buffer.alloc(999)), true);
    assert.equal(call.stream.write(Buffer.alloc(1)), false);
    assert.equal(call.stream.write(Buffer.alloc(500)), false);
    peer.sendWindowUpdate(1, 999);
    await peer.frames();
    assert.deepEqual(call.events, ["drained"]);
    peer.sendWindowUpdate(1, 1);
    await peer.frames();
    assert.deepEqual(call.events, ["drained", "drained"]);
    peer.sendWindowUpdate(1, 1_000);
    await peer.frames();
    assert.deepEqual(call.events, ["drained", "drained"]);
  });

  it("says nothing of room to one that never filled it", async (t) => {
    const { peer, request } = await openWide(t);
    const call = request();
    for (let count = 0; count < 100; count++) {
      assert.equal(call.stream.write(Buffer.alloc(1_000)), count < 65);
      if (count === 64) break;
    }
    await peer.frames();
    assert.deepEqual(call.events, []);
  });

  it("can be called again from within drained()", async (t) => {
    const { peer, request } = await openWide(t);
    const call = request();
    let written = 0;
    call.onDrained = () => {
      while (written < 5 * MIB) {
        const piece = numbered(100_000, written);
        written += piece.length;
        if (!call.stream.write(piece)) return;
      }
      call.stream.end();
    };
    call.onDrained();
    const frames = await peer.frames();
    assert.ok(bodyOf(frames, 1).equals(numbered(written)));
    assert.match(frames.at(-1)?.text ?? "", / END_STREAM$/);
  });

  it("is dropped, with a yes, once the stream is ended or over", async (t) => {
    const { peer, request } = await openWide(t);
    const [ended, over] = [request(), request()];
    ended.stream.end();
    over.stream.reset(8);
    assert.equal(ended.stream.write(Buffer.alloc(1 * MIB)), true);
    assert.equal(over.stream.write(Buffer.alloc(1 * MIB)), true);
    const frames = await peer.frames();
    assert.deepEqual(frames.map(({ text }) => text).slice(2), [
      "RST_STREAM 3 CANCEL",
      "DATA 1 of 0 END_STREAM",
    ]);
    assert.deepEqual(ended.events, []);
  });

  it("of nothing sends nothing", async (t) => {
    const { peer, request } = await openWide(t);
    const { stream } = request();
    await peer.frames();
    stream.write(Buffer.alloc(0));
    stream.write(Buffer.alloc(0), Buffer.from("x"));
    stream.write(Buffer.alloc(0));
    assert.deepEqual(await peer.seen(), ["DATA 1 of 1"]);
    stream.end();
    assert.deepEqual(await peer.seen(), ["DATA 1 of 0 END_STREAM"]);
  });
});

describe("what one turn of the event loop sends", () => {
  it("leaves in one write, whatever it is", async (t) => {
    const { peer, streams, connection } = await openServer(t, {}, WIDE);
    peer.sendWindowUpdate(0, 100 * MIB);
    for (let id = 1; id <= 19; id += 2) peer.sendHeaders(id, REQUEST);
    const writesBefore = peer.socket.writes.length;
    for (const { stream } of streams) {
      stream.sendHeaders(OK);
      for (let count = 0; count < 20; count++) stream.write(Buffer.from("head"), Buffer.alloc(500));
    }
    connection.ping();
    const frames = await peer.frames();
    assert.equal(frames.length, 10 + 1 + 10);
    assert.equal(peer.socket.writes.length, writesBefore + 1);
  });

  it("is not copied where it is large", async (t) => {
    const { peer, request } = await openWide(t, 64 * KIB);
    const { stream } = request();
    const payload = Buffer.alloc(60_000, 1);
    stream.write(Buffer.from("head"), payload);
    await peer.settled();
    const large = peer.socket.writes.flat().filter(({ length }) => length > 2 * KIB);
    assert.deepEqual(
      large.map((buffer) => [buffer.buffer === payload.buffer, buffer.length]),
      [[true, 60_000]],
    );
  });

  it("puts small buffers together: a write of many packets of 100 bytes is a few buffers", async (t) => {
    const { peer, request } = await openWide(t, 64 * KIB);
    const { stream } = request();
    for (let count = 0; count < 2_000; count++) stream.write(Buffer.alloc(4), Buffer.alloc(96));
    await peer.settled();
    const { length } = peer.socket.writes.at(-1) ?? [];
    assert.ok(length <= 50, `${length} buffers`);
    assert.equal(bodyOf(await peer.frames(), 1).length, 200_000);
  });

  it("puts control frames in front of the data, and answers in front of their data", async (t) => {
    const { peer, streams } = await openServer(t, {}, WIDE);
    peer.sendHeaders(1, REQUEST, true);
    peer.sendHeaders(3, REQUEST, true);
    streams[0]?.stream.sendHeaders(OK);
    streams[0]?.stream.write(Buffer.from("one"));
    peer.sendPing("12345678");
    streams[1]?.stream.sendHeaders(OK);
    streams[1]?.stream.write(Buffer.from("two"));
    streams[1]?.stream.finish([["t", "2"]]);
    assert.deepEqual(await peer.seen(), [
      "HEADERS 1 :status=200",
      "PING ack 3132333435363738",
      "HEADERS 3 :status=200",
      "DATA 1 of 3",
      "DATA 3 of 3",
      "HEADERS 3 t=2 END_STREAM",
    ]);
  });
});

describe("streams with much to send", () => {
  it("take turns frame by frame", async (t) => {
    const { peer, request } = await openWide(t);
    const calls = [request(), request(), request()];
    await peer.frames();
    for (const { stream } of calls) stream.write(Buffer.alloc(80 * KIB));
    const order = (await peer.frames()).map(({ streamId }) => streamId);
    assert.deepEqual(order, [1, 3, 5, 1, 3, 5, 1, 3, 5, 1, 3, 5, 1, 3, 5]);
  });

  it("do not keep a keystroke waiting, although one of them never stops", async (t) => {
    const { peer, request } = await openWide(t, 64 * KIB);
    const [download, shell] = [request(), request()];
    await peer.frames();
    peer.socket.stall();
    download.stream.write(Buffer.alloc(20 * MIB));
    await peer.frames();
    shell.stream.write(Buffer.from("k"));
    peer.socket.takeWrite();
    const next = (await peer.seen()).slice(0, 2);
    assert.ok(next.includes("DATA 3 of 1"), next.join());
  });

  it("do not starve each other when the connection's window is what they wait for", async (t) => {
    const { peer, request } = await openClient(t, {}, WIDE);
    const calls = [request(), request(), request(), request()];
    for (const { stream } of calls) stream.write(Buffer.alloc(1 * MIB));
    await peer.frames();
    const sent = new Map<number, number>();
    for (let round = 0; round < 400; round++) {
      peer.sendWindowUpdate(0, 1_000);
      for (const { streamId, payload } of await peer.frames()) {
        sent.set(streamId, (sent.get(streamId) ?? 0) + payload.length);
      }
    }
    assert.deepEqual([...sent.values()], [100_000, 100_000, 100_000, 100_000]);
  });

  it("end behind their data, with END_STREAM or with trailers, wherever the windows cut it", async (t) => {
    for (const windowBytes of [1, 999, 1_000, 1_001, 2_000]) {
      const initial = { [Setting.INITIAL_WINDOW_SIZE]: windowBytes };
      const { peer, streams } = await openServer(t, {}, initial);
      for (const id of [1, 3]) {
        peer.sendHeaders(id, REQUEST, true);
        streams.at(-1)?.stream.sendHeaders(OK);
        streams.at(-1)?.stream.write(numbered(2_000));
      }
      streams[0]?.stream.end();
      streams[1]?.stream.finish([["t", "1"]]);
      const frames = await peer.frames();
      for (let open = windowBytes; open < 2_000; open += windowBytes * 3) {
        for (const id of [1, 3]) peer.sendWindowUpdate(id, windowBytes * 3);
        frames.push(...(await peer.frames()));
      }
      for (const id of [1, 3]) {
        const ofStream = frames.filter(({ streamId }) => streamId === id);
        assert.ok(bodyOf(ofStream, id).equals(numbered(2_000)), `window of ${windowBytes}`);
        const ends = ofStream.filter(({ text }) => text.endsWith("END_STREAM"));
        assert.deepEqual(ends, ofStream.slice(-1));
      }
      assert.deepEqual(
        streams.map(({ events }) => events.at(-1)),
        ["closed: finished", "closed: finished"],
      );
    }
  });

  it("cost little to choose between, also when there are thousands", async (t) => {
    const { peer, request } = await openWide(t);
    const calls = Array.from({ length: 5_000 }, () => request());
    await peer.frames();
    for (const { stream } of calls) stream.write(Buffer.alloc(40 * KIB));
    const frames = await peer.frames();
    assert.equal(frames.length, 15_000);
    // Nobody gets a second frame before everybody has had a first.
    assert.equal(new Set(frames.slice(0, 5_000).map(({ streamId }) => streamId)).size, 5_000);
  });
});
