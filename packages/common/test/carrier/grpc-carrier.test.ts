import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import type { ServerCarrier } from "../../src/carrier/carrier.ts";
import { GrpcMessageReader } from "../../src/grpc/grpc-message-reader.ts";
import type { GrpcMethod } from "../../src/grpc/grpc-service.ts";
import type { HeaderList } from "../../src/hpack/header-list.ts";
import { FrameFlag, FrameType } from "../../src/http2/frame.ts";
import { PacketDecoder } from "../../src/packet/packet-decoder.ts";
import { PacketType } from "../../src/packet/packet.ts";
import {
  DRAIN_MESSAGE,
  callHeaders,
  dataMessage,
  grpcMessage,
  memoryServer,
} from "../grpc/memory-server.ts";
import { frameBytes } from "../http2/frames.ts";
import { RawPeer } from "../http2/raw-peer.ts";
import {
  LIMITS,
  OVER_UNIX,
  RecordedOwner,
  UNCOUNTED,
  clientOn,
  recordingMethod,
  serve,
} from "./grpc-setup.ts";
import type { ReceivedData, TestClient } from "./grpc-setup.ts";
import { CONTROL_PACKETS, connectionId } from "./packets.ts";

const PROXY = "/ProxyService/Proxy";
const KIB = 1024;
const MIB = 1024 * KIB;

/** A client of ours whose server is the test. */
async function openClient(t: TestContext): Promise<TestClient & { peer: RawPeer }> {
  const peer = new RawPeer("server");
  const client = clientOn(t, peer.socket.asSocket);
  peer.sendSettings();
  peer.send(FrameType.SETTINGS, FrameFlag.ACK, 0);
  await peer.frames();
  return { ...client, peer };
}

/** A server of ours whose client is the test, with one call accepted. */
async function openServerCall(
  t: TestContext,
  streamWindowBytes = 0x7fff_ffff,
): Promise<{ owner: RecordedOwner; peer: RawPeer }> {
  const { method, owners } = recordingMethod(undefined, []);
  const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
  peer.sendSettings({ 4: streamWindowBytes, 5: 66_560 });
  peer.sendWindowUpdate(0, 1_000 * MIB);
  peer.sendHeaders(1, callHeaders(PROXY));
  await peer.frames();
  const [owner] = owners;
  assert.ok(owner);
  return { owner, peer };
}

/** The DATA packets on stream 1 since the last look, once the carrier has nothing more to do. */
async function dataPackets(peer: RawPeer): Promise<ReceivedData[]> {
  const owner = new RecordedOwner();
  const reader = new GrpcMessageReader(new PacketDecoder(owner, UNCOUNTED.received));
  for (const { type, streamId, payload } of await peer.frames()) {
    if (type === FrameType.DATA && streamId === 1) reader.push(payload);
  }
  assert.ok(reader.atBoundary);
  return owner.packets.filter((packet): packet is ReceivedData => !("type" in packet));
}

const OK: HeaderList = [
  [":status", "200"],
  ["content-type", "application/grpc"],
];

describe("a carrier's receiving", () => {
  it("hands DATA on before the packet is complete: cut-through", async (t) => {
    const { owner, peer } = await openServerCall(t);
    const message = grpcMessage(dataMessage(Buffer.alloc(4 * MIB - 100, 1)));
    let sent = 0;
    for (let at = 0; at < 1 * MIB; at += 16 * KIB) {
      const piece = message.subarray(at, at + 16 * KIB);
      peer.sendData(1, piece);
      sent += piece.length;
      // Everything but the head of the packet has been handed on.
      assert.equal(owner.receivedBytes, sent - 5 - 14);
    }
  });

  it("hands DATA on as it comes, in two pieces of a frame that is cut", async (t) => {
    const { owner, peer } = await openServerCall(t);
    const message = grpcMessage(dataMessage(Buffer.alloc(50_000, 1)));
    const frame = frameBytes(FrameType.DATA, 0, 1, message);
    const sizes: number[] = [];
    owner.onData = (_id, piece) => sizes.push(piece.length);
    for (const part of [frame.subarray(0, 30_000), frame.subarray(30_000)]) {
      peer.socket.receive(part);
    }
    const headBytes = frame.length - 50_000;
    assert.deepEqual(sizes, [30_000 - headBytes, 20_000 + headBytes]);
    await peer.settled();
  });

  it("counts every packet of the wire once, those of unknown type included", async (t) => {
    const counted: string[] = [];
    const counters = {
      sent: { count: (type: number) => counted.push(`sent ${type}`) },
      received: { count: (type: number) => counted.push(`received ${type}`) },
    };
    const method: GrpcMethod = (call) => {
      call.accept(counters, new RecordedOwner()).send({ type: PacketType.DRAIN });
      return undefined;
    };
    const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
    peer.sendHeaders(1, callHeaders(PROXY));
    const unknown = grpcMessage(Buffer.from("0863", "hex"));
    const message = grpcMessage(dataMessage(Buffer.alloc(100)));
    peer.sendData(
      1,
      Buffer.concat([grpcMessage(DRAIN_MESSAGE), unknown, message]).subarray(0, -50),
    );
    peer.sendData(1, message.subarray(-50));
    assert.deepEqual(counted, ["sent 6", "received 6", "received 99", "received 4"]);
    await peer.settled();
  });

  it("paused stops the peer within one window, loses nothing, and holds nobody else up", async (t) => {
    const { method, owners } = recordingMethod();
    const server = await serve(t, OVER_UNIX, { ProxyService: { Proxy: method } });
    const { call } = clientOn(t, await server.connect());
    const [paused, other] = [call(), call()];
    let sent = 0;
    const fill = () => {
      while (sent < 20 * MIB) {
        const payload = Buffer.alloc(10_000);
        payload.writeUInt32BE(sent);
        sent += payload.length;
        if (paused.carrier?.sendData(connectionId(1), payload) === false) return;
      }
      paused.carrier?.end();
    };
    paused.onDrained = fill;
    other.carrier?.send({ type: PacketType.DRAIN });
    while (owners.length < 2) await new Promise((resolve) => setImmediate(resolve));
    const [receiver] = owners;
    receiver?.carrier?.pauseReading();
    fill();
    // The other call of the same connection goes on all the while.
    for (let round = 0; round < 200; round++) {
      const echoed = new Promise((resolve) => {
        other.onControl = resolve;
      });
      owners[1]!.onControl = (packet) => owners[1]?.carrier?.send(packet);
      other.carrier?.send({ type: PacketType.CLOSE_REQ, connectionId: connectionId(round) });
      await echoed;
    }
    const stoppedAt = receiver?.receivedBytes ?? 0;
    assert.ok(stoppedAt <= LIMITS.streamWindowBytes, `${stoppedAt} bytes`);
    assert.ok(stoppedAt > LIMITS.streamWindowBytes - 100 * KIB, `${stoppedAt} bytes`);
    assert.ok(sent < LIMITS.streamWindowBytes + 2 * LIMITS.writeHighWaterBytes);
    receiver?.carrier?.resumeReading();
    receiver!.onEnded = () => receiver?.carrier?.end();
    assert.equal((await paused.whenClosed).code, 0);
    assert.equal(receiver?.receivedBytes, sent);
    const received = Buffer.concat(
      receiver.packets.map((packet) => ("type" in packet ? Buffer.alloc(0) : packet.bytes)),
    );
    for (let at = 0; at < sent; at += 10_000) assert.equal(received.readUInt32BE(at), at);
  });

  it("can be paused and resumed at every packet", async (t) => {
    const { method, owners } = recordingMethod((owner) => {
      owner.keepsData = false;
      owner.onData = () => {
        owner.carrier?.pauseReading();
        setImmediate(() => {
          owner.carrier?.resumeReading();
        });
      };
      owner.onEnded = () => owner.carrier?.end();
    });
    const server = await serve(t, OVER_UNIX, { ProxyService: { Proxy: method } });
    const { call } = clientOn(t, await server.connect());
    const owner = call();
    for (let at = 0; at < 100; at++)
      owner.carrier?.sendData(connectionId(1), Buffer.alloc(100_000));
    owner.carrier?.end();
    assert.equal((await owner.whenClosed).code, 0);
    assert.equal(owners[0]?.receivedBytes, 10_000_000);
  });

  it("says nothing more once the carrier is closed, by either side", async (t) => {
    const { call, peer } = await openClient(t);
    const owner = call();
    owner.onControl = () => owner.carrier?.abort({ code: 1, message: "enough" });
    peer.sendHeaders(1, OK);
    peer.sendData(1, Buffer.concat([grpcMessage(DRAIN_MESSAGE), grpcMessage(DRAIN_MESSAGE)]));
    peer.sendData(1, grpcMessage(DRAIN_MESSAGE));
    peer.sendHeaders(1, [["grpc-status", "0"]], true);
    assert.equal(owner.packets.length, 1);
    assert.deepEqual(owner.events, ["opened", "closed 1 enough"]);
    assert.deepEqual((await peer.seen()).at(-1), "RST_STREAM 1 CANCEL");
  });
});

describe("a carrier's sending", () => {
  it("puts all packets of one turn into one write", async (t) => {
    const { owner, peer } = await openServerCall(t);
    const writesBefore = peer.socket.writes.length;
    for (const [packet] of CONTROL_PACKETS) owner.carrier?.send(packet);
    for (let at = 0; at < 100; at++) owner.carrier?.sendData(connectionId(1), Buffer.alloc(1_000));
    await peer.settled();
    assert.equal(peer.socket.writes.length, writesBefore + 1);
  });

  it("joins what waits of one connection into packets of 63 KiB at most", async (t) => {
    const { owner, peer } = await openServerCall(t);
    const pieces = Array.from({ length: 30 }, (_, at) => Buffer.alloc(10_000, at));
    for (const piece of pieces) owner.carrier?.sendData(connectionId(1), piece);
    const packets = await dataPackets(peer);
    assert.deepEqual(
      packets.map(({ bytes }) => bytes.length),
      [60_000, 60_000, 60_000, 60_000, 60_000],
    );
    assert.ok(Buffer.concat(packets.map(({ bytes }) => bytes)).equals(Buffer.concat(pieces)));
  });

  it("joins as much as it is told to", async (t) => {
    const { owner, peer } = await openServerCall(t);
    owner.carrier?.joinUpTo(120_000);
    const pieces = [1, 2, 3].map((fill) => Buffer.alloc(60_000, fill));
    for (const piece of pieces) owner.carrier?.sendData(connectionId(1), piece);
    const packets = await dataPackets(peer);
    assert.deepEqual(
      packets.map(({ bytes }) => bytes.length),
      [120_000, 60_000],
    );
    assert.ok(Buffer.concat(packets.map(({ bytes }) => bytes)).equals(Buffer.concat(pieces)));
  });

  it("joins nothing that has begun to leave", async (t) => {
    const { owner, peer } = await openServerCall(t);
    for (let fill = 0; fill < 40; fill++) {
      owner.carrier?.sendData(connectionId(1), Buffer.alloc(9_000, fill));
      if (fill % 3 === 0) await peer.settled();
    }
    const packets = await dataPackets(peer);
    assert.deepEqual(
      packets.map(({ bytes }) => bytes.length),
      [9_000, ...Array.from({ length: 13 }, () => 27_000)],
    );
    const expected = Array.from({ length: 40 }, (_, fill) => Buffer.alloc(9_000, fill));
    assert.ok(Buffer.concat(packets.map(({ bytes }) => bytes)).equals(Buffer.concat(expected)));
  });

  it("joins nothing to a packet of which a part has left", async (t) => {
    const { owner, peer } = await openServerCall(t, 5_000);
    const pieces = [1, 2, 3].map((fill) => Buffer.alloc(9_000, fill));
    owner.carrier?.sendData(connectionId(1), pieces[0]!);
    await peer.settled();
    for (const piece of pieces.slice(1)) owner.carrier?.sendData(connectionId(1), piece);
    peer.sendWindowUpdate(1, 1 * MIB);
    const packets = await dataPackets(peer);
    assert.deepEqual(
      packets.map(({ bytes }) => bytes.length),
      [9_000, 18_000],
    );
    assert.ok(Buffer.concat(packets.map(({ bytes }) => bytes)).equals(Buffer.concat(pieces)));
  });

  it("joins nothing behind the end of the call", async (t) => {
    const { owner, peer } = await openServerCall(t, 5_000);
    owner.carrier?.sendData(connectionId(1), Buffer.alloc(4_000));
    owner.carrier?.sendData(connectionId(1), Buffer.alloc(9_000));
    owner.carrier?.end();
    owner.carrier?.sendData(connectionId(1), Buffer.alloc(9_000));
    peer.sendWindowUpdate(1, 1 * MIB);
    const packets = await dataPackets(peer);
    assert.deepEqual(
      packets.map(({ bytes }) => bytes.length),
      [13_000],
    );
  });

  it("leaves small messages as they came, and joins nothing across another packet", async (t) => {
    const { owner, peer } = await openServerCall(t);
    const send = (id: number, bytes: number) =>
      owner.carrier?.sendData(connectionId(id), Buffer.alloc(bytes));
    send(1, 4_000);
    send(1, 4_191);
    send(1, 4_001);
    send(2, 10_000);
    send(1, 10_000);
    owner.carrier?.send({ type: PacketType.CLOSE_RSP, connectionId: connectionId(2), error: "" });
    send(1, 10_000);
    const packets = await dataPackets(peer);
    assert.deepEqual(
      packets.map(({ connectionId: id, bytes }) => [id, bytes.length]),
      [
        [1, 4_000],
        [1, 8_192],
        [2, 10_000],
        [1, 10_000],
        [1, 10_000],
      ],
    );
  });

  it("counts as sent the packets that are on the wire", async (t) => {
    let count = 0;
    let carrier: ServerCarrier | undefined;
    const counters = { ...UNCOUNTED, sent: { count: () => count++ } };
    const method: GrpcMethod = (call) => {
      carrier = call.accept(counters, new RecordedOwner());
      return undefined;
    };
    const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
    peer.sendSettings({ 4: 0x7fff_ffff, 5: 66_560 });
    peer.sendWindowUpdate(0, 1_000 * MIB);
    peer.sendHeaders(1, callHeaders(PROXY));
    await peer.frames();
    for (let at = 0; at < 20; at++) carrier?.sendData(connectionId(1), Buffer.alloc(10_000));
    const packets = await dataPackets(peer);
    assert.equal(count, packets.length);
    assert.equal(count, 4);
  });

  it("copies no large payload", async (t) => {
    const { owner, peer } = await openServerCall(t);
    const payload = Buffer.alloc(200_000, 1);
    owner.carrier?.sendData(connectionId(1), payload);
    await peer.settled();
    const bytesOfPayload = peer.socket.writes
      .flat()
      .filter(({ buffer }) => buffer === payload.buffer)
      .reduce((sum, { length }) => sum + length, 0);
    // All but what falls into a buffer of less than two KiB at the edge of a frame.
    assert.ok(bytesOfPayload > 200_000 - 4 * 2 * KIB, `${bytesOfPayload} bytes`);
  });

  it("says stop when much waits, and drained when it is gone, on both sides", async (t) => {
    const { owner, peer } = await openServerCall(t);
    peer.socket.stall();
    // What the connection takes at once, and what then waits.
    let sent = 0;
    while (owner.carrier?.sendData(connectionId(1), Buffer.alloc(10_000)) === true) sent += 10_000;
    assert.ok(sent >= LIMITS.writeHighWaterBytes - 20_000 && sent <= LIMITS.writeHighWaterBytes);
    await peer.settled();
    while (owner.carrier?.sendData(connectionId(1), Buffer.alloc(10_000)) === true) sent += 10_000;
    await peer.settled();
    const drainsBefore = owner.events.filter((event) => event === "drained").length;
    peer.socket.stall(false);
    await peer.settled();
    assert.equal(owner.events.filter((event) => event === "drained").length, drainsBefore + 1);
  });

  it("is dropped when a server resets the call, an end that was to come behind it included", async (t) => {
    const owner = new RecordedOwner();
    let carrier: ServerCarrier | undefined;
    const method: GrpcMethod = (call) => {
      carrier = call.accept(UNCOUNTED, owner);
      return undefined;
    };
    const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
    peer.sendSettings();
    peer.sendHeaders(1, callHeaders(PROXY));
    await peer.frames();
    // More than the client's window.
    carrier?.sendData(connectionId(1), Buffer.alloc(1 * MIB));
    carrier?.end();
    await peer.frames();
    carrier?.reset();
    carrier?.reset();
    assert.deepEqual(await peer.seen(), ["RST_STREAM 1 CANCEL"]);
    assert.deepEqual(owner.events, ["closed 1 context canceled"]);
    assert.equal(carrier?.queuedBytes, 0);
  });

  it("is dropped in silence once the carrier is over", async (t) => {
    const { owner, peer } = await openServerCall(t);
    peer.sendReset(1, 8);
    owner.carrier?.send({ type: PacketType.DRAIN });
    assert.equal(owner.carrier?.sendData(connectionId(1), Buffer.alloc(10 * MIB)), true);
    owner.carrier.end();
    owner.carrier.abort({ code: 13, message: "late" });
    owner.carrier.pauseReading();
    owner.carrier.resumeReading();
    assert.deepEqual(await peer.seen(), []);
    assert.deepEqual(owner.events, ["closed 1 context canceled"]);
  });
});

describe("a client's carrier", () => {
  it("opens a call with the headers of Go's clients, in their order", async (t) => {
    const { call, peer } = await openClient(t);
    call({
      path: "/AgentService/Connect",
      authority: "127.0.0.1",
      scheme: "https",
      userAgent: "grpc-go/1.83.0",
      metadata: [
        ["agentid", "agent-1"],
        ["agentidentifiers", "ipv4=127.0.0.1&host=foo"],
      ],
    });
    assert.deepEqual(await peer.seen(), [
      "HEADERS 1 :method=POST :scheme=https :path=/AgentService/Connect :authority=127.0.0.1 content-type=application/grpc user-agent=grpc-go/1.83.0 te=trailers agentid=agent-1 agentidentifiers=ipv4=127.0.0.1&host=foo",
    ]);
  });

  it("finishes with END_STREAM, never with a reset, and once", async (t) => {
    const { call, peer, connection } = await openClient(t);
    const owner = call();
    owner.carrier?.send({ type: PacketType.DRAIN });
    owner.carrier?.end();
    owner.carrier?.end();
    assert.deepEqual((await peer.seen()).slice(1), ["DATA 1 of 9 END_STREAM"]);
    peer.sendHeaders(1, OK);
    peer.sendHeaders(
      1,
      [
        ["grpc-status", "0"],
        ["grpc-message", ""],
      ],
      true,
    );
    assert.deepEqual(owner.events, ["opened", "ended", "closed 0"]);
    assert.equal(connection.streamCount, 0);
    assert.deepEqual(await peer.seen(), []);
  });

  it("is over with the server's trailers, whatever it still had to say", async (t) => {
    const { call, peer, connection } = await openClient(t);
    const owner = call();
    owner.carrier?.sendData(connectionId(1), Buffer.alloc(1 * MIB));
    await peer.frames();
    peer.sendHeaders(1, OK);
    peer.sendHeaders(
      1,
      [
        ["grpc-status", "5"],
        ["grpc-message", "gone"],
      ],
      true,
    );
    assert.deepEqual(owner.events, ["opened", "ended", "closed 5 gone"]);
    // Nothing of it is left, so that whoever waits for its last call can close the connection.
    assert.equal(connection.streamCount, 0);
    peer.sendReset(1, 0);
    assert.deepEqual(await peer.seen(), ["DATA 1 of 0 END_STREAM"]);
    assert.equal(owner.events.length, 3);
  });

  const ends: readonly (readonly [string, (peer: RawPeer) => void, readonly string[]])[] = [
    [
      "a refusal in trailers only",
      (peer) => {
        peer.sendHeaders(1, [...OK, ["grpc-status", "7"], ["grpc-message", "no %25"]], true);
      },
      ["ended", "closed 7 no %"],
    ],
    [
      "a refusal in HTTP and in gRPC",
      (peer) => {
        const headers: HeaderList = [
          [":status", "415"],
          ["content-type", "application/grpc"],
          ["grpc-status", "3"],
          ["grpc-message", "why"],
        ];
        peer.sendHeaders(1, headers, true);
      },
      ["ended", "closed 3 why"],
    ],
    ...(
      [
        ["400", 13],
        ["401", 16],
        ["403", 7],
        ["404", 12],
        ["429", 14],
        ["431", 2],
        ["502", 14],
        ["503", 14],
        ["504", 14],
        ["500", 2],
        ["302", 2],
      ] as const
    ).map(
      ([status, code]) =>
        [
          `HTTP status ${status}`,
          (peer: RawPeer) => {
            peer.sendHeaders(1, [
              [":status", status],
              ["content-type", "text/html"],
            ]);
            peer.sendData(1, Buffer.from("<html>"), true);
          },
          [`closed ${code} unexpected HTTP status code received from server: ${status}`],
        ] as const,
    ),
    [
      "another content type",
      (peer) => {
        peer.sendHeaders(1, [
          [":status", "200"],
          ["content-type", "text/html"],
        ]);
      },
      ['closed 2 unexpected content-type "text/html"'],
    ],
    [
      "no content type",
      (peer) => {
        peer.sendHeaders(1, [[":status", "200"]]);
      },
      ['closed 2 unexpected content-type ""'],
    ],
    [
      "an end without trailers",
      (peer) => {
        peer.sendHeaders(1, OK);
        peer.sendData(1, grpcMessage(DRAIN_MESSAGE), true);
      },
      ["opened", "ended", "closed 13 server closed the stream without sending trailers"],
    ],
    [
      "an end with the headers, and no status",
      (peer) => {
        peer.sendHeaders(1, OK, true);
      },
      ["opened", "ended", "closed 13 server closed the stream without sending trailers"],
    ],
    [
      "an end within a message",
      (peer) => {
        peer.sendHeaders(1, OK);
        peer.sendData(1, grpcMessage(DRAIN_MESSAGE).subarray(0, 7));
        peer.sendHeaders(1, [["grpc-status", "0"]], true);
      },
      ["opened", "closed 13 unexpected EOF"],
    ],
    [
      "trailers without a status",
      (peer) => {
        peer.sendHeaders(1, OK);
        peer.sendHeaders(1, [["grpc-message", "x"]], true);
      },
      ["opened", "ended", 'closed 13 no usable grpc-status in the trailers: ""'],
    ],
    [
      "trailers with a status that is no number",
      (peer) => {
        peer.sendHeaders(1, OK);
        peer.sendHeaders(1, [["grpc-status", "ok"]], true);
      },
      ["opened", "ended", 'closed 13 no usable grpc-status in the trailers: "ok"'],
    ],
    [
      "a message that is no packet",
      (peer) => {
        peer.sendHeaders(1, OK);
        peer.sendData(1, grpcMessage(Buffer.from("ff", "hex")));
      },
      [
        "opened",
        "closed 13 grpc: failed to unmarshal the received message: proto: cannot parse invalid wire-format data",
      ],
    ],
    ...(
      [
        [7, 14, "REFUSED_STREAM"],
        [8, 1, "CANCEL"],
        [11, 8, "ENHANCE_YOUR_CALM"],
        [12, 7, "INADEQUATE_SECURITY"],
        [0, 13, "NO_ERROR"],
        [2, 13, "INTERNAL_ERROR"],
        [0xbeef, 13, "0xbeef"],
      ] as const
    ).map(
      ([reset, code, name]) =>
        [
          `a reset with ${name}`,
          (peer: RawPeer) => {
            peer.sendHeaders(1, OK);
            peer.sendReset(1, reset);
          },
          ["opened", `closed ${code} stream terminated by RST_STREAM with error code: ${name}`],
        ] as const,
    ),
    [
      "an end of the connection",
      (peer) => {
        peer.sendHeaders(1, OK);
        peer.socket.receiveEnd();
      },
      ["opened", "closed 14 the connection was closed"],
    ],
    [
      "a failure of the connection",
      (peer) => {
        peer.socket.destroy(new Error("read ECONNRESET"));
      },
      ["closed 14 the connection failed: read ECONNRESET"],
    ],
    [
      "GOAWAY before its turn",
      (peer) => {
        peer.sendGoaway(0, 0);
      },
      ["closed 14 stream terminated by RST_STREAM with error code: REFUSED_STREAM"],
    ],
    [
      "response headers that are too large",
      (peer) => {
        peer.sendHeaders(1, [
          ...OK,
          ["a", "x".repeat(16_000)],
          ["b", "y".repeat(LIMITS.maxHeaderListBytes - 16_000)],
        ]);
      },
      ["closed 8 stream terminated by RST_STREAM with error code: ENHANCE_YOUR_CALM"],
    ],
  ];
  for (const [what, send, expected] of ends) {
    it(`tells ${what}, once`, async (t) => {
      const { call, peer, connection } = await openClient(t);
      const owner = call();
      send(peer);
      await peer.settled();
      assert.deepEqual(owner.events, expected);
      assert.equal(connection.streamCount, 0);
    });
  }

  it("made on a connection that is gone is told so", async (t) => {
    const { call, connection } = await openClient(t);
    connection.destroy();
    const owner = call();
    assert.deepEqual(await owner.whenClosed, { code: 14, message: "the connection was closed" });
  });
});
