import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { FrameFlag, FrameType, Setting } from "../../src/http2/frame.ts";
import { padded } from "./frames.ts";
import type { Frame } from "./frames.ts";
import { REQUEST, openClient, openServer } from "./raw-peer.ts";
import type { RawPeer } from "./raw-peer.ts";

const START_BYTES = 65_535;

/** Bytes of DATA per stream. */
function dataBytes(frames: readonly Frame[]): Map<number, number> {
  const bytes = new Map<number, number>();
  for (const { type, streamId, payload } of frames) {
    if (type !== FrameType.DATA) continue;
    bytes.set(streamId, (bytes.get(streamId) ?? 0) + payload.length);
  }
  return bytes;
}

async function sentBytes(peer: RawPeer): Promise<number> {
  return [...dataBytes(await peer.frames()).values()].reduce((sum, bytes) => sum + bytes, 0);
}

describe("sending", () => {
  it("stops at the stream's window and goes on when it opens", async (t) => {
    const { peer, request } = await openClient(t);
    peer.sendWindowUpdate(0, 1_000_000);
    const { stream } = request();
    stream.write(Buffer.alloc(START_BYTES + 100));
    assert.equal(await sentBytes(peer), START_BYTES);
    assert.equal(stream.queuedBytes, 100);
    peer.sendWindowUpdate(1, 1);
    assert.equal(await sentBytes(peer), 1);
    peer.sendWindowUpdate(1, 1_000);
    assert.equal(await sentBytes(peer), 99);
    stream.write(Buffer.alloc(10_000));
    assert.equal(await sentBytes(peer), 901);
  });

  it("stops at the connection's window, for all streams together", async (t) => {
    const { peer, request } = await openClient(t);
    const streams = [request(), request()].map(({ stream }) => stream);
    for (const stream of streams) stream.write(Buffer.alloc(60_000));
    assert.equal(await sentBytes(peer), START_BYTES);
    peer.sendWindowUpdate(0, 7);
    assert.equal(await sentBytes(peer), 7);
    peer.sendWindowUpdate(0, 1_000_000);
    assert.equal(await sentBytes(peer), 120_000 - START_BYTES - 7);
  });

  it("is not held up by a stream whose window is closed", async (t) => {
    const { peer, request } = await openClient(t, {}, { [Setting.INITIAL_WINDOW_SIZE]: 10 });
    peer.sendWindowUpdate(0, 1_000_000);
    const [blocked, free] = [request().stream, request().stream];
    blocked.write(Buffer.alloc(50_000));
    free.write(Buffer.alloc(50_000));
    peer.sendWindowUpdate(free.id, 1_000_000);
    const bytes = dataBytes(await peer.frames());
    assert.deepEqual(
      bytes,
      new Map([
        [1, 10],
        [3, 50_000],
      ]),
    );
  });

  it("of headers, ends and pings needs no window", async (t) => {
    const { peer, request, connection } = await openClient(
      t,
      {},
      { [Setting.INITIAL_WINDOW_SIZE]: 0 },
    );
    const { stream } = request();
    stream.write(Buffer.alloc(1));
    request().stream.end();
    peer.sendPing("question");
    connection.ping();
    assert.deepEqual((await peer.seen()).slice(2), [
      "PING ack 7175657374696f6e",
      "PING 0000000000000000",
      "DATA 3 of 0 END_STREAM",
    ]);
    assert.equal(stream.queuedBytes, 1);
  });

  it("of an end waits behind the data, also when the connection's window is used up", async (t) => {
    const { peer, request } = await openClient(t);
    const [first, second] = [request().stream, request().stream];
    first.write(Buffer.alloc(START_BYTES));
    await peer.frames();
    second.write(Buffer.alloc(3));
    second.end();
    assert.deepEqual(await peer.seen(), []);
    peer.sendWindowUpdate(0, 2);
    assert.deepEqual(await peer.seen(), ["DATA 3 of 2"]);
    peer.sendWindowUpdate(0, 1);
    assert.deepEqual(await peer.seen(), ["DATA 3 of 1 END_STREAM"]);
  });

  it("heeds a larger initial window at once", async (t) => {
    const { peer, request } = await openClient(t);
    peer.sendWindowUpdate(0, 1_000_000);
    request().stream.write(Buffer.alloc(200_000));
    assert.equal(await sentBytes(peer), START_BYTES);
    peer.sendSettings({ [Setting.INITIAL_WINDOW_SIZE]: 100_000 });
    assert.equal(await sentBytes(peer), 100_000 - START_BYTES);
  });

  it("heeds a smaller initial window, which can make windows negative", async (t) => {
    const { peer, request } = await openClient(t);
    peer.sendWindowUpdate(0, 1_000_000);
    const old = request().stream;
    old.write(Buffer.alloc(200_000));
    assert.equal(await sentBytes(peer), START_BYTES);
    peer.sendSettings({ [Setting.INITIAL_WINDOW_SIZE]: 1_000 });
    const young = request().stream;
    young.write(Buffer.alloc(5_000));
    assert.deepEqual(dataBytes(await peer.frames()), new Map([[3, 1_000]]));
    // 64535 below zero: only what is given beyond that counts.
    peer.sendWindowUpdate(1, 64_535);
    assert.equal(await sentBytes(peer), 0);
    peer.sendWindowUpdate(1, 5);
    assert.deepEqual(dataBytes(await peer.frames()), new Map([[1, 5]]));
    peer.sendSettings({ [Setting.INITIAL_WINDOW_SIZE]: 1_200 });
    assert.deepEqual(
      dataBytes(await peer.frames()),
      new Map([
        [1, 200],
        [3, 200],
      ]),
    );
  });

  it("ends a stream whose window is negative, since that takes none", async (t) => {
    const { peer, request } = await openClient(t);
    peer.sendWindowUpdate(0, 1_000_000);
    const streams = [request(), request()].map(({ stream }) => stream);
    for (const stream of streams) stream.write(Buffer.alloc(60_000));
    assert.equal(await sentBytes(peer), 120_000);
    peer.sendSettings({ [Setting.INITIAL_WINDOW_SIZE]: 0 });
    await peer.frames();
    streams[0]!.end();
    streams[1]!.finish([["trailer", "1"]]);
    assert.deepEqual(
      (await peer.frames()).map(({ type, flags, streamId }) => [type, flags, streamId]),
      [
        [FrameType.DATA, FrameFlag.END_STREAM, 1],
        [FrameType.HEADERS, FrameFlag.END_STREAM | FrameFlag.END_HEADERS, 3],
        [FrameType.RST_STREAM, 0, 3],
      ],
    );
  });

  it("applies the settings of one frame in their order", async (t) => {
    const { peer, request } = await openClient(t);
    peer.sendWindowUpdate(0, 1_000_000);
    request().stream.write(Buffer.alloc(200_000));
    await peer.frames();
    const window = (bytes: number) =>
      Buffer.from(`0004${bytes.toString(16).padStart(8, "0")}`, "hex");
    peer.send(FrameType.SETTINGS, 0, 0, Buffer.concat([window(0), window(70_000)]));
    assert.equal(await sentBytes(peer), 70_000 - START_BYTES);
  });

  it("takes a window to its limit, and resets the stream beyond it", async (t) => {
    const { peer, request, connection } = await openClient(t);
    const [call, other] = [request(), request()];
    await peer.frames();
    peer.sendWindowUpdate(1, 0x7fff_ffff - START_BYTES);
    assert.deepEqual(await peer.seen(), []);
    peer.sendWindowUpdate(1, 1);
    assert.deepEqual(await peer.seen(), ["RST_STREAM 1 FLOW_CONTROL_ERROR"]);
    assert.equal(call.events.at(-1), "closed: reset by us FLOW_CONTROL_ERROR");
    assert.deepEqual(other.events, []);
    assert.equal(connection.isClosed, false);
  });

  it("takes the connection's window to its limit, and ends the connection beyond it", async (t) => {
    const { peer, events } = await openServer(t);
    peer.sendWindowUpdate(0, 0x7fff_ffff - START_BYTES);
    assert.deepEqual(await peer.seen(), []);
    peer.sendWindowUpdate(0, 1);
    assert.match((await peer.seen()).join(), /^GOAWAY last 0 FLOW_CONTROL_ERROR /);
    assert.equal(events.length, 1);
  });

  it("ends the connection when a new initial window takes a stream's beyond the limit", async (t) => {
    const { peer, request } = await openClient(t);
    request();
    peer.sendWindowUpdate(1, 0x7fff_ffff - START_BYTES);
    await peer.frames();
    peer.sendSettings({ [Setting.INITIAL_WINDOW_SIZE]: START_BYTES + 1 });
    assert.match((await peer.seen()).join(), /^GOAWAY last 0 FLOW_CONTROL_ERROR /);
  });

  it("resets a stream for an increment of zero, and ends the connection for its own", async (t) => {
    const { peer, request, connection } = await openClient(t);
    request();
    await peer.frames();
    peer.sendWindowUpdate(1, 0);
    assert.deepEqual(await peer.seen(), ["RST_STREAM 1 PROTOCOL_ERROR"]);
    assert.equal(connection.isClosed, false);
    peer.sendWindowUpdate(0, 0);
    assert.match((await peer.seen()).join(), /^GOAWAY last 0 PROTOCOL_ERROR /);
  });

  it("ignores the reserved bit of an increment", async (t) => {
    const { peer, request } = await openClient(t);
    peer.send(FrameType.WINDOW_UPDATE, 0, 0, Buffer.from([0x80, 0, 0, 9]));
    const { stream } = request();
    peer.sendWindowUpdate(1, 1_000_000);
    stream.write(Buffer.alloc(100_000));
    assert.equal(await sentBytes(peer), START_BYTES + 9);
  });

  const streamIds = fc.constantFrom(1, 3, 5);
  const step = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({ write: streamIds, bytes: fc.integer({ min: 1, max: 40_000 }) }),
    },
    {
      weight: 4,
      arbitrary: fc.record({ open: streamIds, bytes: fc.integer({ min: 1, max: 50_000 }) }),
    },
    { weight: 3, arbitrary: fc.record({ openAll: fc.integer({ min: 1, max: 100_000 }) }) },
    { weight: 2, arbitrary: fc.record({ initial: fc.integer({ min: 0, max: 120_000 }) }) },
  );

  it("sends all that both windows allow and not a byte more, whatever they do", async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const { peer, request, connection } = await openClient(t);
        const streams = new Map(
          [request(), request(), request()].map((r) => [r.stream.id, r.stream]),
        );
        const windows = new Map([...streams.keys()].map((id) => [id, START_BYTES]));
        let connectionWindow = START_BYTES;
        let initialWindow = START_BYTES;
        await peer.frames();
        for (const next of steps) {
          if ("write" in next) {
            streams.get(next.write)!.write(Buffer.alloc(next.bytes));
          } else if ("open" in next) {
            peer.sendWindowUpdate(next.open, next.bytes);
            windows.set(next.open, windows.get(next.open)! + next.bytes);
          } else if ("openAll" in next) {
            peer.sendWindowUpdate(0, next.openAll);
            connectionWindow += next.openAll;
          } else {
            peer.sendSettings({ [Setting.INITIAL_WINDOW_SIZE]: next.initial });
            for (const [id, window] of windows)
              windows.set(id, window + next.initial - initialWindow);
            initialWindow = next.initial;
          }
          for (const [id, bytes] of dataBytes(await peer.frames())) {
            windows.set(id, windows.get(id)! - bytes);
            connectionWindow -= bytes;
            assert.ok(windows.get(id)! >= 0, `stream ${id} overran its window`);
          }
          assert.ok(connectionWindow >= 0, "the connection's window was overrun");
          for (const [id, stream] of streams) {
            const canSend = stream.queuedBytes > 0 && windows.get(id)! > 0 && connectionWindow > 0;
            assert.equal(canSend, false, `stream ${id} could send and did not`);
          }
        }
        connection.destroy();
      }),
      { numRuns: 60 },
    );
  });
});

describe("receiving", () => {
  it("gives the connection's window back on receipt, the stream's when its owner has taken it", async (t) => {
    const { peer, streams } = await openServer(t, {
      streamWindowBytes: 100_000,
      connectionWindowBytes: 65_536,
    });
    peer.sendHeaders(1, REQUEST);
    const [stream] = streams;
    stream!.consumes = false;
    peer.sendData(1, Buffer.alloc(16_000));
    peer.sendData(1, Buffer.alloc(16_000));
    assert.deepEqual(await peer.seen(), []);
    peer.sendData(1, Buffer.alloc(16_000));
    peer.sendData(1, Buffer.alloc(2_000));
    assert.deepEqual(await peer.seen(), ["WINDOW_UPDATE 0 +48000"]);
    stream!.stream.consumed(49_999);
    assert.deepEqual(await peer.seen(), []);
    stream!.stream.consumed(1);
    assert.deepEqual(await peer.seen(), ["WINDOW_UPDATE 1 +50000"]);
  });

  it("takes a stream's window to the last byte, and resets the stream beyond it", async (t) => {
    const { peer, streams, connection } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    peer.sendHeaders(3, REQUEST);
    streams[0]!.consumes = false;
    for (let sent = 0; sent < 100_000; sent += 10_000) peer.sendData(1, Buffer.alloc(10_000));
    assert.equal(streams[0]?.received.length, 100_000);
    peer.sendData(1, Buffer.alloc(0));
    peer.sendData(1, Buffer.alloc(1));
    assert.deepEqual(await peer.seen(), ["RST_STREAM 1 FLOW_CONTROL_ERROR"]);
    assert.equal(streams[0].received.length, 100_000);
    assert.equal(streams[0].events.at(-1), "closed: reset by us FLOW_CONTROL_ERROR");
    peer.sendData(3, Buffer.from("other"), true);
    assert.equal(streams[1]?.received.toString(), "other");
    assert.equal(connection.isClosed, false);
  });

  it("takes more on a stream whose window has grown, and gives back in larger steps", async (t) => {
    const { peer, streams } = await openServer(t, { streamWindowBytes: 100_000 });
    peer.sendHeaders(1, REQUEST);
    streams[0]!.consumes = false;
    streams[0]!.stream.growReceiveWindow(20_000);
    assert.deepEqual(await peer.seen(), ["WINDOW_UPDATE 1 +20000"]);
    for (let sent = 0; sent < 120_000; sent += 10_000) peer.sendData(1, Buffer.alloc(10_000));
    assert.equal(streams[0]?.received.length, 120_000);
    await peer.seen();
    streams[0].stream.consumed(59_999);
    assert.deepEqual(await peer.seen(), []);
    streams[0].stream.consumed(1);
    assert.deepEqual(await peer.seen(), ["WINDOW_UPDATE 1 +60000"]);
    for (let sent = 0; sent < 60_000; sent += 10_000) peer.sendData(1, Buffer.alloc(10_000));
    await peer.seen();
    peer.sendData(1, Buffer.alloc(1));
    assert.deepEqual(await peer.seen(), ["RST_STREAM 1 FLOW_CONTROL_ERROR"]);
  });

  it("counts frames against the windows before their bytes have come", async (t) => {
    const { peer, streams } = await openServer(t, { streamWindowBytes: 100_000 });
    peer.sendHeaders(1, REQUEST);
    streams[0]!.consumes = false;
    for (let sent = 0; sent < 90_000; sent += 10_000) peer.sendData(1, Buffer.alloc(10_000));
    // The head of a frame of 16000 bytes, and none of them.
    peer.socket.receive(Buffer.from("003e80000000000001", "hex"));
    assert.deepEqual(await peer.seen(), ["RST_STREAM 1 FLOW_CONTROL_ERROR"]);
  });

  it("ends a connection that is sent more than its window", async (t) => {
    const { peer, streams } = await openServer(t, {
      streamWindowBytes: 1_000_000,
      connectionWindowBytes: 65_535,
      maxFrameBytes: 100_000,
    });
    peer.sendHeaders(1, REQUEST);
    peer.sendData(1, Buffer.alloc(65_536));
    assert.match((await peer.seen()).join(), /GOAWAY last 1 FLOW_CONTROL_ERROR connection window/);
    assert.equal(streams[0]?.received.length, 0);
  });

  it("gives padding back, which no owner ever sees", async (t) => {
    const { peer, streams } = await openServer(t, { streamWindowBytes: 65_535 });
    peer.sendHeaders(1, REQUEST);
    let sent = 0;
    let given = 0;
    for (let count = 0; count < 4_000; count++) {
      peer.send(FrameType.DATA, FrameFlag.PADDED, 1, padded(Buffer.from("x"), 255));
      sent += 257;
      if (count % 50 > 0) continue;
      for (const text of await peer.seen()) {
        given += Number(/^WINDOW_UPDATE 1 \+(\d+)$/.exec(text)?.[1] ?? 0);
      }
      assert.ok(sent - given <= 65_535, `${sent - given} bytes are missing from the window`);
    }
    assert.equal(streams[0]?.received.length, 4_000);
    assert.equal(streams[0].stream.isClosed, false);
  });

  it("gives nothing back to a stream that the peer has finished", async (t) => {
    const { peer, streams } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    streams[0]!.consumes = false;
    for (let sent = 0; sent < 80_000; sent += 10_000) peer.sendData(1, Buffer.alloc(10_000));
    peer.sendData(1, Buffer.alloc(0), true);
    streams[0]?.stream.consumed(80_000);
    assert.deepEqual(await peer.seen(), []);
  });

  it("gives the connection's window back for streams that are over", async (t) => {
    const { peer, streams } = await openServer(t, { connectionWindowBytes: 65_536 });
    peer.sendHeaders(1, REQUEST);
    streams[0]?.stream.reset(8);
    await peer.frames();
    let given = 0;
    for (let sent = 0; sent < 1_000_000; sent += 16_000) {
      peer.sendData(1, Buffer.alloc(16_000));
      for (const text of await peer.seen()) {
        given += Number(/^WINDOW_UPDATE 0 \+(\d+)$/.exec(text)?.[1] ?? 0);
      }
      assert.ok(sent + 16_000 - given <= 65_536);
    }
  });
});
