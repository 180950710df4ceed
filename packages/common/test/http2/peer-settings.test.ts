import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FrameFlag, FrameType, Setting } from "../../src/http2/frame.ts";
import { settingsPayload } from "./frames.ts";
import { REQUEST, openClient, openServer } from "./raw-peer.ts";

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

  it("do not make frames of DATA larger than a packet, since streams take turns by frames", async (t) => {
    const { peer, request } = await openClient(
      t,
      {},
      { [Setting.MAX_FRAME_SIZE]: 0xff_ffff, [Setting.INITIAL_WINDOW_SIZE]: 1_000_000 },
    );
    peer.sendWindowUpdate(0, 1_000_000);
    request().stream.write(Buffer.alloc(200_000));
    assert.deepEqual((await peer.seen()).slice(1), ["DATA 1 of 129536", "DATA 1 of 70464"]);
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
