import assert from "node:assert/strict";
import { constants, getPackedSettings } from "node:http2";
import { describe, it } from "node:test";
import {
  FrameFlag,
  FrameType,
  Setting,
  goawayFrame,
  headersFrames,
  pingFrame,
  resetFrame,
  settingsAckFrame,
  settingsFrame,
  windowUpdateFrame,
} from "../../src/http2/frame.ts";
import { Http2ErrorCode, http2ErrorName } from "../../src/http2/http2-error.ts";
import { frameBytes, uint32 } from "./frames.ts";

describe("frames", () => {
  it("are written as RFC 9113 draws them", () => {
    const eight = Buffer.from("12345678");
    assert.deepEqual(pingFrame(eight, false), frameBytes(6, 0, 0, eight));
    assert.deepEqual(pingFrame(eight, true), frameBytes(6, 1, 0, eight));
    assert.deepEqual(settingsAckFrame(), frameBytes(4, 1, 0));
    assert.deepEqual(
      windowUpdateFrame(0x7fff_ffff, 0x7fff_ffff),
      frameBytes(8, 0, 0x7fff_ffff, uint32(0x7fff_ffff)),
    );
    assert.deepEqual(resetFrame(5, 8), frameBytes(3, 0, 5, uint32(8)));
    const debug = Buffer.from("größer");
    assert.deepEqual(
      goawayFrame(7, 11, "größer"),
      frameBytes(7, 0, 0, Buffer.concat([uint32(7), uint32(11), debug])),
    );
  });

  it("pack settings as node:http2 does", () => {
    const ours = settingsFrame([
      [Setting.HEADER_TABLE_SIZE, 0],
      [Setting.ENABLE_PUSH, 0],
      [Setting.INITIAL_WINDOW_SIZE, 0x7fff_ffff],
      [Setting.MAX_FRAME_SIZE, 0xff_ffff],
    ]);
    const theirs = getPackedSettings({
      headerTableSize: 0,
      enablePush: false,
      initialWindowSize: 0x7fff_ffff,
      maxFrameSize: 0xff_ffff,
    });
    assert.deepEqual(
      ours.subarray(9).toString("hex").match(/.{12}/g)?.sort(),
      theirs.toString("hex").match(/.{12}/g)?.sort(),
    );
  });

  it("use node:http2's names and numbers for errors", () => {
    for (const [name, code] of Object.entries(Http2ErrorCode)) {
      const theirName = name === "CONNECT_ERROR" ? "NGHTTP2_CONNECT_ERROR" : `NGHTTP2_${name}`;
      assert.equal((constants as unknown as Record<string, number>)[theirName], code);
      assert.equal(http2ErrorName(code), name);
    }
    assert.equal(http2ErrorName(0xbeef), "0xbeef");
  });

  for (const [blockBytes, parts] of [
    [0, [0]],
    [1, [1]],
    [99, [99]],
    [100, [100]],
    [101, [100, 1]],
    [200, [100, 100]],
    [201, [100, 100, 1]],
  ] as const) {
    it(`cut a header block of ${blockBytes} bytes for a peer that takes 100`, () => {
      const block = Buffer.from(Array.from({ length: blockBytes }, (_, at) => at));
      const frames = headersFrames(3, block, true, 100);
      assert.deepEqual(
        frames,
        parts.map((bytes, index) =>
          frameBytes(
            index === 0 ? FrameType.HEADERS : FrameType.CONTINUATION,
            (index === 0 ? FrameFlag.END_STREAM : 0) |
              (index === parts.length - 1 ? FrameFlag.END_HEADERS : 0),
            3,
            block.subarray(index * 100, index * 100 + bytes),
          ),
        ),
      );
    });
  }
});
