import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { FrameFlag, FrameType } from "../../src/http2/frame.ts";
import { FrameReader } from "../../src/http2/frame-reader.ts";
import type { FrameHandler } from "../../src/http2/frame-reader.ts";
import { Http2Error, Http2ErrorCode } from "../../src/http2/http2-error.ts";
import { frameBytes, padded } from "./frames.ts";

const MAX_FRAME_BYTES = 500;

/** Writes events down; the pieces of one DATA frame as one, since how they are cut may differ. */
class EventLog implements FrameHandler {
  readonly events: string[] = [];
  #data = "";

  frame(type: number, flags: number, streamId: number, payload: Buffer): void {
    this.events.push(`${type} ${flags} ${streamId} ${payload.toString("hex")}`);
  }

  dataBegin(streamId: number, flowBytes: number): void {
    this.events.push(`begin ${streamId} ${flowBytes}`);
    this.#data = "";
  }

  data(piece: Buffer): void {
    assert.notEqual(piece.length, 0);
    this.#data += piece.toString("hex");
  }

  dataEnd(endStream: boolean): void {
    this.events.push(`data ${this.#data}`, `end ${endStream}`);
  }
}

interface Sample {
  readonly bytes: Buffer;
  readonly events: readonly string[];
}

const bytesUpTo = (maxLength: number) =>
  fc.uint8Array({ maxLength }).map((bytes) => Buffer.from(bytes));

const streamIds = fc.oneof(
  fc.integer({ min: 0, max: 9 }),
  fc.constantFrom(0x7fff_ffff, 0x1_0000, 0xff_ffff),
);

/** The reserved bit in front of the stream id, which receivers ignore. */
const reserved = fc.constantFrom(0, 0x8000_0000);

const otherFrame: fc.Arbitrary<Sample> = fc
  .tuple(
    fc.integer({ min: 1, max: 255 }),
    fc.integer({ min: 0, max: 255 }),
    streamIds,
    reserved,
    bytesUpTo(MAX_FRAME_BYTES),
  )
  .map(([type, flags, streamId, reservedBit, payload]) => ({
    bytes: frameBytes(type, flags, (streamId | reservedBit) >>> 0, payload),
    events: [`${type} ${flags} ${streamId} ${payload.toString("hex")}`],
  }));

const dataFrame: fc.Arbitrary<Sample> = fc
  .tuple(streamIds, fc.boolean(), bytesUpTo(200), fc.option(fc.integer({ min: 0, max: 255 })))
  .map(([streamId, endStream, payload, padding]) => {
    const flags =
      (endStream ? FrameFlag.END_STREAM : 0) | (padding === null ? 0 : FrameFlag.PADDED);
    const body = padding === null ? payload : padded(payload, padding);
    return {
      bytes: frameBytes(FrameType.DATA, flags, streamId, body),
      events: [
        `begin ${streamId} ${body.length}`,
        `data ${payload.toString("hex")}`,
        `end ${endStream}`,
      ],
    };
  });

const frames = fc.array(fc.oneof(otherFrame, dataFrame), { maxLength: 12 });

/** Sizes of the pieces that bytes arrive in; the last one repeats. */
const pieceSizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 20 });

function push(reader: FrameReader, bytes: Buffer, sizes: readonly number[]): void {
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[Math.min(turn, sizes.length - 1)]!;
    // What a socket delivers may be overwritten after the event.
    const piece = Buffer.from(bytes.subarray(at, at + size));
    reader.push(piece);
    piece.fill(0xee);
    at += size;
  }
}

describe("FrameReader", () => {
  it("reads any frames, in whatever pieces they arrive", () => {
    fc.assert(
      fc.property(frames, pieceSizes, (samples, sizes) => {
        const bytes = Buffer.concat(samples.map((sample) => sample.bytes));
        const expected = samples.flatMap((sample) => sample.events);
        const whole = new EventLog();
        new FrameReader(whole, MAX_FRAME_BYTES).push(bytes);
        assert.deepEqual(whole.events, expected);
        const cut = new EventLog();
        push(new FrameReader(cut, MAX_FRAME_BYTES), bytes, sizes);
        assert.deepEqual(cut.events, expected);
      }),
      { numRuns: 300 },
    );
  });

  it("reads a frame in two pieces cut at every offset", () => {
    const bytes = Buffer.concat([
      frameBytes(FrameType.DATA, FrameFlag.PADDED, 1, padded(Buffer.from("payload"), 5)),
      frameBytes(FrameType.HEADERS, FrameFlag.END_HEADERS, 1, Buffer.from("block")),
      frameBytes(FrameType.DATA, FrameFlag.END_STREAM, 1),
      frameBytes(FrameType.PING, 0, 0, Buffer.alloc(8, 7)),
    ]);
    const whole = new EventLog();
    new FrameReader(whole, MAX_FRAME_BYTES).push(bytes);
    for (let at = 1; at < bytes.length; at++) {
      const cut = new EventLog();
      const reader = new FrameReader(cut, MAX_FRAME_BYTES);
      reader.push(bytes.subarray(0, at));
      reader.push(bytes.subarray(at));
      assert.deepEqual(cut.events, whole.events, `cut at ${at}`);
    }
  });

  it("begins where it is told to", () => {
    const log = new EventLog();
    const frame = frameBytes(FrameType.PING, 0, 0, Buffer.alloc(8));
    new FrameReader(log, MAX_FRAME_BYTES).push(Buffer.concat([Buffer.from("PRI *"), frame]), 5);
    assert.deepEqual(log.events, ["6 0 0 0000000000000000"]);
  });

  it("begins no frame after stop(), not even one of the same chunk", () => {
    const events: number[] = [];
    const reader: FrameReader = new FrameReader(
      {
        frame: (type) => {
          events.push(type);
          reader.stop();
        },
        dataBegin: () => assert.fail(),
        data: () => assert.fail(),
        dataEnd: () => assert.fail(),
      },
      MAX_FRAME_BYTES,
    );
    const ping = frameBytes(FrameType.PING, 0, 0, Buffer.alloc(8));
    const data = frameBytes(FrameType.DATA, 0, 1, Buffer.from("abc"));
    reader.push(Buffer.concat([ping, data, ping]));
    reader.push(ping);
    assert.deepEqual(events, [FrameType.PING]);
  });

  it("hands payloads on as views of what was read", () => {
    const chunk = Buffer.concat([
      frameBytes(FrameType.DATA, 0, 1, Buffer.alloc(400, 1)),
      frameBytes(FrameType.HEADERS, 0, 1, Buffer.alloc(400, 2)),
    ]);
    const views: Buffer[] = [];
    const log = new EventLog();
    const reader = new FrameReader(
      {
        frame: (_type, _flags, _streamId, payload) => views.push(payload),
        dataBegin: () => undefined,
        data: (piece) => views.push(piece),
        dataEnd: log.dataEnd.bind(log),
      },
      MAX_FRAME_BYTES,
    );
    reader.push(chunk);
    assert.deepEqual(
      views.map((view) => view.length),
      [400, 400],
    );
    for (const view of views) assert.equal(view.buffer, chunk.buffer);
  });

  it("hands DATA on while its frame is still arriving", () => {
    const pieces: string[] = [];
    const reader = new FrameReader(
      {
        frame: () => undefined,
        dataBegin: (_streamId, bytes) => pieces.push(`begin ${bytes}`),
        data: (piece) => pieces.push(piece.toString()),
        dataEnd: () => pieces.push("end"),
      },
      MAX_FRAME_BYTES,
    );
    const frame = frameBytes(FrameType.DATA, 0, 1, Buffer.from("abc"));
    for (const byte of frame) reader.push(Buffer.from([byte]));
    assert.deepEqual(pieces, ["begin 3", "a", "b", "c", "end"]);
  });

  for (const type of [FrameType.DATA, FrameType.HEADERS, FrameType.SETTINGS, 0xff]) {
    it(`takes the largest frame of type ${type}, and refuses one a byte longer by its head`, () => {
      const log = new EventLog();
      const reader = new FrameReader(log, MAX_FRAME_BYTES);
      reader.push(frameBytes(type, 0, 1, Buffer.alloc(MAX_FRAME_BYTES)));
      assert.notEqual(log.events.length, 0);
      const before = log.events.length;
      const head = frameBytes(type, 0, 1, Buffer.alloc(MAX_FRAME_BYTES + 1)).subarray(0, 9);
      assert.throws(
        () => {
          reader.push(head);
        },
        new Http2Error(Http2ErrorCode.FRAME_SIZE_ERROR, "frame of 501 bytes, at most 500 allowed"),
      );
      assert.equal(log.events.length, before);
    });
  }

  const badPadding: readonly (readonly [string, Buffer, number])[] = [
    ["no length", Buffer.alloc(0), Http2ErrorCode.FRAME_SIZE_ERROR],
    ["more than fits", Buffer.from([3, 0, 0]), Http2ErrorCode.PROTOCOL_ERROR],
    ["one byte too many", Buffer.from([1]), Http2ErrorCode.PROTOCOL_ERROR],
  ];
  for (const [what, payload, code] of badPadding) {
    for (const cut of [false, true]) {
      it(`refuses DATA whose padding is ${what}${cut ? ", byte by byte" : ""}`, () => {
        const reader = new FrameReader(new EventLog(), MAX_FRAME_BYTES);
        const bytes = frameBytes(FrameType.DATA, FrameFlag.PADDED, 1, payload);
        const sizes = [cut ? 1 : bytes.length];
        assert.throws(
          () => {
            push(reader, bytes, sizes);
          },
          (error) => error instanceof Http2Error && error.code === code,
        );
      });
    }
  }

  it("takes DATA that is nothing but padding", () => {
    const log = new EventLog();
    const frame = frameBytes(FrameType.DATA, FrameFlag.PADDED, 1, padded(Buffer.alloc(0), 255));
    new FrameReader(log, MAX_FRAME_BYTES).push(frame);
    assert.deepEqual(log.events, ["begin 1 256", "data ", "end false"]);
  });
});
