import assert from "node:assert/strict";
import { once } from "node:events";
import { duplexPair } from "node:stream";
import type { Duplex } from "node:stream";
import { describe, it } from "node:test";
import {
  encodeData,
  encodeOpen,
  encodePing,
  encodeReset,
  readFrames,
} from "../../src/spdy/frames.ts";
import type { Frame } from "../../src/spdy/frames.ts";
import { HeaderCompressor } from "../../src/spdy/header-block.ts";
import { SpdyConnection } from "../../src/spdy/spdy-connection.ts";
import type { SpdyStream } from "../../src/spdy/spdy-stream.ts";

describe("SPDY connection", () => {
  it("answers a stream with a reply, hands on its data and its end, and sends its own", async () => {
    const peer = new Peer();
    peer.socket.write(peer.open(1, { StreamType: "data" }));
    peer.socket.write(encodeData(1, Buffer.from("ping"), false));
    peer.socket.write(encodeData(1, Buffer.alloc(0), true));
    const stream = await peer.accepted();
    assert.equal(stream.headers["streamtype"], "data");
    assert.equal((await peer.next()).type, "reply");
    assert.equal(await text(stream), "ping");
    stream.end("pong");
    assert.deepEqual(await peer.next(), {
      type: "data",
      streamId: 1,
      isLast: false,
      payload: Buffer.from("pong"),
    });
    const last = await peer.next();
    assert.ok(last.type === "data" && last.isLast && last.payload.length === 0);
  });

  it("takes frames however their bytes are cut", async () => {
    const peer = new Peer();
    const bytes = Buffer.concat([
      peer.open(1, { streamtype: "data" }),
      encodeData(1, Buffer.from("one "), false),
      encodePing(7),
      encodeData(1, Buffer.from("two"), true),
    ]);
    for (const byte of bytes) peer.socket.write(Buffer.of(byte));
    assert.equal(await text(await peer.accepted()), "one two");
    assert.equal((await peer.next()).type, "reply");
    assert.deepEqual(await peer.next(), { type: "ping", id: 7 });
  });

  it("destroys the stream that the client resets, and no other", async () => {
    const peer = new Peer();
    peer.socket.write(peer.open(1));
    peer.socket.write(peer.open(3));
    const first = await peer.accepted();
    const second = await peer.accepted();
    const failed = once(first, "error") as Promise<[Error]>;
    peer.socket.write(encodeReset(1, 5));
    assert.match((await failed)[0].message, /client reset the stream \(status 5\)/);
    peer.socket.write(encodeData(3, Buffer.from("alive"), true));
    assert.equal(await text(second), "alive");
  });

  it("resets a stream that is destroyed", async () => {
    const peer = new Peer();
    peer.socket.write(peer.open(1));
    (await peer.accepted()).destroy();
    assert.equal((await peer.next()).type, "reply");
    assert.deepEqual(await peer.next(), { type: "reset", streamId: 1, status: 5 });
  });

  it("does not read on while a stream is full, and loses nothing", async () => {
    const peer = new Peer();
    peer.socket.write(peer.open(1));
    const piece = Buffer.alloc(32 * 1024, "x");
    let written = 0;
    while (peer.socket.write(encodeData(1, piece, false))) written++;
    for (let i = 0; i < 32; i++, written++) peer.socket.write(encodeData(1, piece, false));
    peer.socket.end(encodeData(1, piece, true));
    const stream = await peer.accepted();
    while (stream.readableLength < stream.readableHighWaterMark) await once(stream, "readable");
    assert.ok(stream.readableLength <= stream.readableHighWaterMark + piece.length);
    assert.equal((await text(stream)).length, (written + 2) * piece.length);
  });

  it("is ended behind what it has written if the client does not do so in time", async () => {
    const peer = new Peer();
    peer.socket.write(peer.open(1));
    const stream = await peer.accepted();
    stream.end("last words");
    await once(stream, "finish");
    peer.connection.close(1);
    for (const type of ["reply", "data", "data"]) assert.equal((await peer.next()).type, type);
    const { done } = await peer.frames.next();
    assert.ok(done);
  });

  it("is closed with its streams when the client has gone", async () => {
    const peer = new Peer();
    peer.socket.write(peer.open(1));
    const stream = await peer.accepted();
    peer.socket.end();
    await peer.connection.closed;
    assert.ok(stream.destroyed);
  });

  for (const [what, bytes] of [
    ["another version", Buffer.from("8002000100000000", "hex")],
    ["a frame of 16 MiB", Buffer.from("0000000100ffffff", "hex")],
    ["half a frame", encodePing(1).subarray(0, 10)],
  ] as const) {
    it(`ends with its streams at ${what}`, async () => {
      const peer = new Peer();
      peer.socket.write(peer.open(1));
      const stream = await peer.accepted();
      const failed = once(stream, "error") as Promise<[Error]>;
      peer.socket.end(bytes);
      await peer.connection.closed;
      assert.match((await failed)[0].message, /^SPDY: /);
    });
  }
});

/** All that comes; unlike an iterator it leaves the other direction as it is. */
async function text(stream: SpdyStream): Promise<string> {
  const pieces: Buffer[] = [];
  stream.on("data", (piece: Buffer) => pieces.push(piece));
  await once(stream, "end");
  return Buffer.concat(pieces).toString();
}

/** The client's end, frame by frame. */
class Peer {
  readonly socket: Duplex;
  readonly connection: SpdyConnection;
  readonly frames: AsyncGenerator<Frame>;
  readonly #compressor = new HeaderCompressor();
  readonly #streams: SpdyStream[] = [];
  #onStream: (() => void) | undefined;

  constructor() {
    const [ours, theirs] = duplexPair();
    this.socket = ours;
    this.frames = readFrames(ours);
    this.connection = new SpdyConnection(theirs, (stream) => {
      this.#streams.push(stream);
      this.#onStream?.();
    });
  }

  open(streamId: number, headers: Readonly<Record<string, string>> = {}): Buffer {
    return encodeOpen(streamId, this.#compressor.compress(headers));
  }

  async next(): Promise<Frame> {
    const { value } = (await this.frames.next()) as IteratorResult<Frame, undefined>;
    assert.ok(value);
    return value;
  }

  async accepted(): Promise<SpdyStream> {
    while (this.#streams.length === 0) {
      await new Promise<void>((resolve) => {
        this.#onStream = resolve;
      });
    }
    return this.#streams.shift()!;
  }
}
