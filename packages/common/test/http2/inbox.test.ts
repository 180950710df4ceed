import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FrameFlag, FrameType } from "../../src/http2/frame.ts";
import { frameBytes, uint32 } from "./frames.ts";
import { REQUEST, openClient, openServer } from "./raw-peer.ts";
import type { RawPeer } from "./raw-peer.ts";

describe("a frame that breaks the rules of the whole connection", () => {
  const open = { server: openServer, client: openClient };
  const table: readonly (readonly [
    string,
    "client" | "server",
    (peer: RawPeer) => void,
    string,
  ])[] = [
    [
      "DATA on stream 0",
      "server",
      (peer) => {
        peer.sendData(0, Buffer.from("x"));
      },
      "PROTOCOL_ERROR",
    ],
    [
      "DATA before HEADERS",
      "server",
      (peer) => {
        peer.sendData(1, Buffer.from("x"));
      },
      "PROTOCOL_ERROR",
    ],
    [
      "DATA on a stream of ours",
      "server",
      (peer) => {
        peer.sendData(2, Buffer.from("x"));
      },
      "PROTOCOL_ERROR",
    ],
    [
      "HEADERS on stream 0",
      "server",
      (peer) => {
        peer.sendHeaders(0, REQUEST);
      },
      "PROTOCOL_ERROR",
    ],
    [
      "HEADERS on an even stream",
      "server",
      (peer) => {
        peer.sendHeaders(2, REQUEST);
      },
      "PROTOCOL_ERROR",
    ],
    [
      "HEADERS that open a stream",
      "client",
      (peer) => {
        peer.sendHeaders(1, [[":status", "200"]]);
      },
      "PROTOCOL_ERROR",
    ],
    [
      "HEADERS on an even stream",
      "client",
      (peer) => {
        peer.sendHeaders(2, [[":status", "200"]]);
      },
      "PROTOCOL_ERROR",
    ],
    [
      "HEADERS of padding only",
      "server",
      (peer) => {
        peer.send(FrameType.HEADERS, 12, 1, Buffer.from([5, 0]));
      },
      "PROTOCOL_ERROR",
    ],
    [
      "HEADERS without the length of their padding",
      "server",
      (peer) => {
        peer.send(FrameType.HEADERS, 12, 1);
      },
      "PROTOCOL_ERROR",
    ],
    [
      "HEADERS without all of their priority",
      "server",
      (peer) => {
        peer.send(FrameType.HEADERS, 0x24, 1, Buffer.alloc(4));
      },
      "PROTOCOL_ERROR",
    ],
    [
      "HEADERS that do not decode",
      "server",
      (peer) => {
        peer.send(FrameType.HEADERS, 4, 1, Buffer.from([0xff, 0xff]));
      },
      "COMPRESSION_ERROR",
    ],
    [
      "PUSH_PROMISE",
      "client",
      (peer) => {
        peer.send(FrameType.PUSH_PROMISE, 4, 1, uint32(2));
      },
      "PROTOCOL_ERROR",
    ],
    [
      "PUSH_PROMISE",
      "server",
      (peer) => {
        peer.send(FrameType.PUSH_PROMISE, 4, 1, uint32(2));
      },
      "PROTOCOL_ERROR",
    ],
    [
      "CONTINUATION out of the blue",
      "server",
      (peer) => {
        peer.send(FrameType.CONTINUATION, 4, 1);
      },
      "PROTOCOL_ERROR",
    ],
    [
      "RST_STREAM on stream 0",
      "server",
      (peer) => {
        peer.sendReset(0, 8);
      },
      "PROTOCOL_ERROR",
    ],
    [
      "RST_STREAM before HEADERS",
      "server",
      (peer) => {
        peer.sendReset(1, 8);
      },
      "PROTOCOL_ERROR",
    ],
    [
      "RST_STREAM before HEADERS",
      "client",
      (peer) => {
        peer.sendReset(1, 8);
      },
      "PROTOCOL_ERROR",
    ],
    [
      "RST_STREAM of three bytes",
      "server",
      (peer) => {
        peer.send(FrameType.RST_STREAM, 0, 1, Buffer.alloc(3));
      },
      "FRAME_SIZE_ERROR",
    ],
    [
      "PRIORITY on stream 0",
      "server",
      (peer) => {
        peer.send(FrameType.PRIORITY, 0, 0, Buffer.alloc(5));
      },
      "PROTOCOL_ERROR",
    ],
    [
      "PRIORITY of four bytes",
      "server",
      (peer) => {
        peer.send(FrameType.PRIORITY, 0, 1, Buffer.alloc(4));
      },
      "FRAME_SIZE_ERROR",
    ],
    [
      "PING on a stream",
      "server",
      (peer) => {
        peer.send(FrameType.PING, 0, 1, Buffer.alloc(8));
      },
      "PROTOCOL_ERROR",
    ],
    [
      "PING of nine bytes",
      "server",
      (peer) => {
        peer.send(FrameType.PING, 0, 0, Buffer.alloc(9));
      },
      "FRAME_SIZE_ERROR",
    ],
    [
      "GOAWAY on a stream",
      "server",
      (peer) => {
        peer.send(FrameType.GOAWAY, 0, 1, Buffer.alloc(8));
      },
      "PROTOCOL_ERROR",
    ],
    [
      "GOAWAY of seven bytes",
      "server",
      (peer) => {
        peer.send(FrameType.GOAWAY, 0, 0, Buffer.alloc(7));
      },
      "FRAME_SIZE_ERROR",
    ],
    [
      "WINDOW_UPDATE before HEADERS",
      "server",
      (peer) => {
        peer.sendWindowUpdate(1, 1);
      },
      "PROTOCOL_ERROR",
    ],
    [
      "WINDOW_UPDATE of five bytes",
      "server",
      (peer) => {
        peer.send(FrameType.WINDOW_UPDATE, 0, 0, Buffer.alloc(5));
      },
      "FRAME_SIZE_ERROR",
    ],
    [
      "a frame that is too large",
      "server",
      (peer) => {
        peer.send(0xff, 0, 0, Buffer.alloc(16_385));
      },
      "FRAME_SIZE_ERROR",
    ],
  ];
  for (const [what, side, send, code] of table) {
    it(`ends a ${side}'s connection with ${code}: ${what}`, async (t) => {
      const { peer, events, connection } = await open[side](t);
      send(peer);
      const seen = await peer.seen();
      assert.equal(seen.length, 1);
      assert.ok(seen[0]?.startsWith(`GOAWAY last 0 ${code} `), seen[0]);
      assert.equal(events.length, 1);
      assert.equal(connection.isClosed, true);
      assert.equal(peer.socket.writableFinished, true);
    });
  }

  const interrupting: readonly (readonly [string, Buffer])[] = [
    ["DATA", frameBytes(FrameType.DATA, 0, 1, Buffer.from("x"))],
    ["HEADERS", frameBytes(FrameType.HEADERS, FrameFlag.END_HEADERS, 1)],
    ["PING", frameBytes(FrameType.PING, 0, 0, Buffer.alloc(8))],
    ["CONTINUATION of another stream", frameBytes(FrameType.CONTINUATION, 4, 3)],
    ["a frame of unknown type", frameBytes(0xfe, 0, 0)],
  ];
  for (const [what, frame] of interrupting) {
    it(`ends the connection: ${what} within a header block`, async (t) => {
      const { peer, streams } = await openServer(t);
      peer.send(FrameType.HEADERS, 0, 1, peer.block(REQUEST));
      peer.socket.receive(frame);
      assert.match((await peer.seen()).join(), /^GOAWAY last 0 PROTOCOL_ERROR /);
      assert.equal(streams.length, 0);
    });
  }

  it("tells every stream why", async (t) => {
    const { peer, streams, events } = await openServer(t);
    peer.sendHeaders(1, REQUEST);
    peer.sendHeaders(3, REQUEST, true);
    peer.sendPing("short");
    const reason = "PING of 5 bytes";
    assert.deepEqual(
      streams.map((stream) => stream.events.at(-1)),
      [`closed: connection ${reason}`, `closed: connection ${reason}`],
    );
    assert.deepEqual(events, [`closed: ${reason}`]);
    assert.deepEqual(await peer.seen(), [`GOAWAY last 3 FRAME_SIZE_ERROR ${reason}`]);
  });
});
