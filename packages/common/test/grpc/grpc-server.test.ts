import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import type { GrpcMethod } from "../../src/grpc/grpc-service.ts";
import type { HeaderList } from "../../src/hpack/header-list.ts";
import { CLIENT_PREFACE, FrameFlag } from "../../src/http2/frame.ts";
import { PacketType } from "../../src/packet/packet.ts";
import { RecordedOwner, UNCOUNTED, recordingMethod } from "../carrier/grpc-setup.ts";
import { connectionId } from "../carrier/packets.ts";
import {
  DRAIN_MESSAGE,
  FIRST_REQUEST_TIMEOUT_MS,
  KEEPALIVE,
  callHeaders,
  dataMessage,
  grpcMessage,
  memoryServer,
} from "./memory-server.ts";

const PROXY = "/ProxyService/Proxy";
const CONNECT = "/AgentService/Connect";

type GoldenHeaders = Readonly<Record<string, HeaderList>>;

/** Headers that Go's peers were recorded to send. */
const GOLDEN = JSON.parse(
  readFileSync(new URL("../../../../test/golden/agent-metadata.json", import.meta.url), "utf8"),
) as GoldenHeaders & { agent_connect_request_headers: GoldenHeaders };

/** Header fields as frames are described. */
function text(headers: HeaderList | undefined): string {
  return headers?.map(([name, value]) => ` ${name}=${value}`).join("") ?? "";
}

describe("a gRPC server", () => {
  it("answers Connect with the headers of Go's, at once and in its order", async (t) => {
    const { method } = recordingMethod(undefined, [
      ["serverid", "srv-1"],
      ["servercount", "1"],
    ]);
    const peer = await memoryServer(t, { AgentService: { Connect: method } }).connectEstablished();
    for (const [at, headers] of Object.values(GOLDEN.agent_connect_request_headers).entries()) {
      peer.sendHeaders(2 * at + 1, headers);
      assert.deepEqual(await peer.seen(), [
        `HEADERS ${2 * at + 1}${text(GOLDEN["server_connect_response_headers"])}`,
      ]);
    }
  });

  it("ends a call with the trailers of Go's", async (t) => {
    const { method } = recordingMethod((owner) => {
      owner.onEnded = () => owner.carrier?.end();
    }, []);
    const peer = await memoryServer(t, { AgentService: { Connect: method } }).connectEstablished();
    peer.sendHeaders(1, callHeaders(CONNECT), true);
    assert.deepEqual((await peer.seen()).slice(1), [
      `HEADERS 1${text(GOLDEN["server_connect_trailers_ok"])} END_STREAM`,
    ]);
  });

  it("refuses a call in trailers only, as Go's does", async (t) => {
    const refuse: GrpcMethod = () => ({
      code: 2,
      message: "expected one agent ID in the context, got []",
    });
    const peer = await memoryServer(t, { AgentService: { Connect: refuse } }).connectEstablished();
    peer.sendHeaders(1, callHeaders(CONNECT));
    assert.deepEqual(await peer.seen(), [
      `HEADERS 1${text(GOLDEN["server_connect_trailers_only_missing_agentid"])} END_STREAM`,
      "RST_STREAM 1 NO_ERROR",
    ]);
  });

  it("sends its headers with the first packet where there is no metadata", async (t) => {
    const { method, owners } = recordingMethod();
    const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
    peer.sendHeaders(1, GOLDEN["test_client_proxy_request_headers"] ?? []);
    assert.deepEqual(await peer.seen(), []);
    owners[0]?.carrier?.send({ type: PacketType.DRAIN });
    owners[0]?.carrier?.send({ type: PacketType.DRAIN });
    assert.deepEqual(await peer.seen(), [
      `HEADERS 1${text(GOLDEN["server_proxy_response_headers"])}`,
      "DATA 1 of 18",
    ]);
    owners[0]?.carrier?.end();
    assert.deepEqual(await peer.seen(), [
      `HEADERS 1${text(GOLDEN["server_proxy_trailers_ok"])} END_STREAM`,
      "RST_STREAM 1 NO_ERROR",
    ]);
  });

  it("ends a call of which nothing was sent in trailers only", async (t) => {
    const { method } = recordingMethod((owner) => {
      owner.onEnded = () => owner.carrier?.end();
    });
    const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
    peer.sendHeaders(1, callHeaders(PROXY), true);
    assert.deepEqual(await peer.seen(), [
      "HEADERS 1 :status=200 content-type=application/grpc grpc-status=0 grpc-message= END_STREAM",
    ]);
  });

  const refusedByHttp: readonly (readonly [string, HeaderList, string])[] = [
    [
      "another content type",
      [["content-type", "text/plain"]],
      '415 content-type=application/grpc grpc-status=3 grpc-message=invalid gRPC request content-type "text/plain"',
    ],
    [
      "no content type",
      [],
      '415 content-type=application/grpc grpc-status=3 grpc-message=invalid gRPC request content-type ""',
    ],
    [
      "a content type that only begins like gRPC's",
      [["content-type", "application/grpc-web"]],
      '415 content-type=application/grpc grpc-status=3 grpc-message=invalid gRPC request content-type "application/grpc-web"',
    ],
  ];
  for (const [what, headers, expected] of refusedByHttp) {
    it(`answers ${what} in HTTP and in gRPC`, async (t) => {
      const { method, owners } = recordingMethod();
      const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
      peer.sendHeaders(1, [...callHeaders(PROXY).slice(0, 4), ...headers], true);
      assert.deepEqual(await peer.seen(), [`HEADERS 1 :status=${expected} END_STREAM`]);
      assert.equal(owners.length, 0);
    });
  }

  it("answers GET in HTTP and in gRPC, and a content type goes first", async (t) => {
    const peer = await memoryServer(t, {}).connectEstablished();
    const get: HeaderList = [[":method", "GET"], ...callHeaders(PROXY).slice(1)];
    peer.sendHeaders(1, get, true);
    peer.sendHeaders(3, get.slice(0, 4), true);
    const [first = "", second = ""] = await peer.seen();
    assert.equal(
      first,
      'HEADERS 1 :status=405 content-type=application/grpc grpc-status=13 grpc-message=Received a HEADERS frame with :method "GET" which should be POST END_STREAM',
    );
    assert.match(second, /^HEADERS 3 :status=415 /);
  });

  it("serves calls without `te`, with parameters or a subtype in the content type", async (t) => {
    const { method, owners } = recordingMethod(undefined, []);
    const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
    const types = ["application/grpc+proto", "application/grpc;charset=utf-8", "Application/GRPC"];
    for (const [at, type] of types.entries()) {
      peer.sendHeaders(2 * at + 1, [...callHeaders(PROXY).slice(0, 4), ["content-type", type]]);
      assert.deepEqual(await peer.seen(), [
        `HEADERS ${2 * at + 1} :status=200 content-type=${type}`,
      ]);
    }
    assert.equal(owners.length, 3);
  });

  const deadlines: readonly (readonly [string, number | undefined])[] = [
    ["1H", 3_600_000],
    ["2M", 120_000],
    ["3S", 3_000],
    ["40m", 40],
    ["5000u", 5],
    ["6000000n", 6],
    ["99999999m", 99_999_999],
    ["0S", 0],
    ["100000000m", undefined],
    ["5", undefined],
    ["m", undefined],
    ["-1S", undefined],
    ["1s", undefined],
    ["", undefined],
  ];
  for (const [value, delayMs] of deadlines) {
    it(`takes grpc-timeout "${value}" for ${delayMs ?? "no"} milliseconds`, async (t) => {
      const { method, owners } = recordingMethod(undefined, []);
      const { connectEstablished, clock } = memoryServer(t, { ProxyService: { Proxy: method } });
      const peer = await connectEstablished();
      const timersBefore = clock.pendingTimers;
      peer.sendHeaders(1, callHeaders(PROXY, [["grpc-timeout", value]]));
      // The deadline for a first call has made way for that of the call, if it has one.
      assert.equal(clock.pendingTimers, timersBefore - (delayMs === undefined ? 1 : 0));
      if (delayMs === undefined) return;
      // Let the client live long enough.
      const alive = () => {
        peer.sendPing("12345678", FrameFlag.ACK);
      };
      for (let left = delayMs - 1; left > 0; left -= 10_000) {
        clock.advance(Math.min(left, 10_000));
        alive();
      }
      if (delayMs > 0) assert.deepEqual(owners[0]?.events, []);
      clock.advance(delayMs > 0 ? 1 : 0);
      assert.deepEqual(owners[0]?.events, ["closed 4 context deadline exceeded"]);
      assert.match(
        (await peer.seen()).join(),
        /grpc-status=4 grpc-message=context deadline exceeded/,
      );
    });
  }

  it("forgets the deadline of a call that is over", async (t) => {
    const { method, owners } = recordingMethod();
    const { connectEstablished, clock } = memoryServer(t, { ProxyService: { Proxy: method } });
    const peer = await connectEstablished();
    for (const [at, end] of (["reset", "end", "abort"] as const).entries()) {
      const id = 2 * at + 1;
      peer.sendHeaders(id, callHeaders(PROXY, [["grpc-timeout", "1H"]]));
      const carrier = owners[at]?.carrier;
      if (end === "reset") peer.sendReset(id, 8);
      else if (end === "end") carrier?.end();
      else carrier?.abort({ code: 13, message: "" });
      await peer.settled();
      // What is left is the connection's keepalive.
      assert.equal(clock.pendingTimers, 1, end);
    }
  });

  it("tells the owner of a call that is ended while it is being accepted", async (t) => {
    const owner = new RecordedOwner();
    const method: GrpcMethod = (call) => {
      call.accept(UNCOUNTED, owner).end();
      return undefined;
    };
    const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
    peer.sendHeaders(1, callHeaders(PROXY));
    assert.deepEqual(owner.events, ["closed 0"]);
    await peer.settled();
  });

  it("says UNIMPLEMENTED to an encoding it does not know, and takes identity", async (t) => {
    const { method, owners } = recordingMethod(undefined, []);
    const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
    peer.sendHeaders(1, callHeaders(PROXY, [["grpc-encoding", "gzip"]]));
    peer.sendHeaders(3, callHeaders(PROXY, [["grpc-encoding", "identity"]]));
    const [refused = ""] = await peer.seen();
    assert.match(
      refused,
      /grpc-status=12 grpc-message=grpc: Decompressor is not installed for grpc-encoding "gzip" END_STREAM$/,
    );
    assert.equal(owners.length, 1);
  });

  const bodies: readonly (readonly [string, Buffer, string])[] = [
    [
      "a compressed message without a word about it",
      grpcMessage(DRAIN_MESSAGE, 1),
      "closed 13 grpc: compressed flag set with identity or empty encoding",
    ],
    [
      "a message of an unknown format",
      grpcMessage(DRAIN_MESSAGE, 2),
      "closed 13 grpc: received unexpected payload format 2",
    ],
    [
      "a message that is announced too long",
      Buffer.from([0, 0xff, 0xff, 0xff, 0xff]),
      "closed 8 grpc: received message larger than max (4294967295 vs. 4194304)",
    ],
    [
      "a message that is no packet",
      grpcMessage(Buffer.from("ff", "hex")),
      "closed 13 grpc: failed to unmarshal the received message: proto: cannot parse invalid wire-format data",
    ],
    [
      "a packet with a text that is not UTF-8",
      grpcMessage(Buffer.from("080332040a02c328", "hex")),
      "closed 13 grpc: failed to unmarshal the received message: string field contains invalid UTF-8",
    ],
    [
      "an end within a message",
      grpcMessage(DRAIN_MESSAGE).subarray(0, -1),
      "closed 13 unexpected EOF",
    ],
    ["an end within a message's prefix", Buffer.from([0, 0]), "closed 13 unexpected EOF"],
    ["an end right behind a prefix", Buffer.from([0, 0, 0, 0, 1]), "closed 13 unexpected EOF"],
  ];
  for (const [what, body, expected] of bodies) {
    it(`ends a call for ${what}, and nothing else`, async (t) => {
      const { method, owners } = recordingMethod(undefined, []);
      const { connectEstablished, server } = memoryServer(t, { ProxyService: { Proxy: method } });
      const peer = await connectEstablished();
      peer.sendHeaders(1, callHeaders(PROXY));
      peer.sendHeaders(3, callHeaders(PROXY));
      peer.sendData(1, body, expected.endsWith("EOF"));
      assert.deepEqual(owners[0]?.events, [expected]);
      const [, code = ""] = expected.split(" ");
      const seen = await peer.seen();
      assert.ok(seen.some((frame) => frame.startsWith(`HEADERS 1 grpc-status=${code} `)));
      peer.sendData(3, grpcMessage(DRAIN_MESSAGE), true);
      assert.deepEqual(owners[1]?.events, ["ended"]);
      assert.deepEqual(owners[1].packets, [{ type: PacketType.DRAIN }]);
      assert.equal(server.connectionCount, 1);
    });
  }

  it("takes an empty message for a request to dial nothing", async (t) => {
    const { method, owners } = recordingMethod(undefined, []);
    const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
    peer.sendHeaders(1, callHeaders(PROXY));
    peer.sendData(1, grpcMessage(Buffer.alloc(0)), true);
    assert.deepEqual(owners[0]?.packets, [
      { type: PacketType.DIAL_REQ, dialId: 0, protocol: "", address: "" },
    ]);
    assert.deepEqual(owners[0].events, ["ended"]);
    await peer.settled();
  });

  it("hands nothing on behind the packet at which a call was given up", async (t) => {
    const { method, owners } = recordingMethod((owner) => {
      owner.onControl = () => owner.carrier?.abort({ code: 10, message: "stop" });
    }, []);
    const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
    peer.sendHeaders(1, callHeaders(PROXY));
    const messages = [grpcMessage(DRAIN_MESSAGE), grpcMessage(dataMessage(Buffer.from("late")))];
    peer.sendData(1, Buffer.concat([...messages, ...messages]));
    assert.equal(owners[0]?.packets.length, 1);
    assert.deepEqual(owners[0].events, ["closed 10 stop"]);
    await peer.settled();
  });

  it("knows who is at the other end of a Unix socket: nobody it could name", async (t) => {
    const peers: unknown[] = [];
    const method: GrpcMethod = (call) => {
      peers.push(call.peer);
      return { code: 0, message: "" };
    };
    const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
    peer.sendHeaders(1, callHeaders(PROXY));
    assert.deepEqual(peers, [{ address: "", commonName: undefined }]);
    await peer.settled();
  });

  it("sends DATA in pieces that follow their head uncopied", async (t) => {
    const { method, owners } = recordingMethod(undefined, []);
    const peer = await memoryServer(t, { ProxyService: { Proxy: method } }).connectEstablished();
    peer.sendHeaders(1, callHeaders(PROXY));
    peer.sendSettings({ 5: 66_560 });
    await peer.frames();
    const payload = Buffer.alloc(50_000, 7);
    owners[0]?.carrier?.sendData(connectionId(1), payload);
    await peer.settled();
    const last = peer.socket.writes.at(-1) ?? [];
    assert.equal(last.at(-1)?.buffer, payload.buffer);
    assert.equal(last.at(-1)?.length, 50_000);
  });
});

describe("connections of a gRPC server", () => {
  const halfBeginnings: readonly (readonly [string, Buffer])[] = [
    ["nothing", Buffer.alloc(0)],
    ["half a preface", CLIENT_PREFACE.subarray(0, 12)],
    ["a preface", CLIENT_PREFACE],
    ["half a frame", Buffer.concat([CLIENT_PREFACE, Buffer.from("00000604", "hex")])],
    ["settings", Buffer.concat([CLIENT_PREFACE, Buffer.from("000000040000000000", "hex")])],
    [
      "half a request",
      Buffer.concat([CLIENT_PREFACE, Buffer.from("000000040000000000000001010000000182", "hex")]),
    ],
  ];
  for (const [what, bytes] of halfBeginnings) {
    it(`that begin with ${what} and then fall silent are closed in time`, async (t) => {
      const { connect, clock, server } = memoryServer(t, {});
      const peer = connect();
      if (bytes.length > 0) peer.socket.receive(bytes);
      clock.advance(FIRST_REQUEST_TIMEOUT_MS - 1);
      assert.equal(server.connectionCount, 1);
      clock.advance(1);
      assert.equal(server.connectionCount, 0);
      assert.equal((await peer.seen()).at(-1), "GOAWAY last 0 NO_ERROR no request in time");
      assert.equal(peer.socket.writableFinished, true);
      // One that does not even hang up is cut off.
      clock.advance(5_000);
      assert.equal(peer.socket.destroyed, true);
      assert.equal(clock.pendingTimers, 0);
    });
  }

  it("that drip one byte at a time are closed in time as well", async (t) => {
    const { connect, clock, server } = memoryServer(t, {});
    const peer = connect();
    for (const byte of CLIENT_PREFACE) {
      peer.socket.receive(Buffer.from([byte]));
      clock.advance(1_000);
    }
    assert.equal(server.connectionCount, 0);
    await peer.settled();
  });

  it("are not held to that time once there was a call", async (t) => {
    const { method } = recordingMethod();
    const { connectEstablished, clock, server } = memoryServer(t, {
      ProxyService: { Proxy: method },
    });
    const peer = await connectEstablished();
    peer.sendHeaders(1, callHeaders(PROXY));
    clock.advance(FIRST_REQUEST_TIMEOUT_MS * 2);
    assert.equal(server.connectionCount, 1);
  });

  it("are asked for a sign of life when silent, and dropped without one", async (t) => {
    const { method, owners } = recordingMethod();
    const { connectEstablished, clock, server } = memoryServer(t, {
      ProxyService: { Proxy: method },
    });
    const peer = await connectEstablished();
    peer.sendHeaders(1, callHeaders(PROXY));
    clock.advance(KEEPALIVE.intervalMs - 1);
    assert.deepEqual(await peer.seen(), []);
    clock.advance(1);
    assert.deepEqual(await peer.seen(), ["PING 0000000000000000"]);
    clock.advance(KEEPALIVE.timeoutMs - 1);
    peer.sendPing("\0\0\0\0\0\0\0\0", FrameFlag.ACK);
    clock.advance(KEEPALIVE.intervalMs);
    assert.deepEqual(await peer.seen(), ["PING 0000000000000000"]);
    assert.deepEqual(owners[0]?.events, []);
    clock.advance(KEEPALIVE.timeoutMs);
    assert.deepEqual(owners[0].events, ["closed 1 context canceled"]);
    assert.equal(server.connectionCount, 0);
    assert.equal(peer.socket.destroyed, true);
    await peer.settled();
    assert.equal(clock.pendingTimers, 0);
  });

  it("are proven alive by anything that arrives, half a frame included", async (t) => {
    const { method } = recordingMethod();
    const { connectEstablished, clock } = memoryServer(t, { ProxyService: { Proxy: method } });
    const peer = await connectEstablished();
    peer.sendHeaders(1, callHeaders(PROXY));
    const frame = Buffer.from("000004000000000001" + "00000000", "hex");
    for (const byte of frame) {
      clock.advance(KEEPALIVE.intervalMs - 1);
      peer.socket.receive(Buffer.from([byte]));
    }
    assert.deepEqual(await peer.seen(), []);
  });

  it("that come while the server closes are told so", async (t) => {
    const { connect, server } = memoryServer(t, {});
    server.close();
    const peer = connect();
    assert.equal((await peer.seen()).at(-1), "GOAWAY last 0 NO_ERROR");
    assert.equal(server.connectionCount, 0);
  });

  it("are closed with the server once their calls are over", async (t) => {
    const { method, owners } = recordingMethod((owner) => {
      owner.onEnded = () => owner.carrier?.end();
    });
    const { connectEstablished, server, clock } = memoryServer(t, {
      ProxyService: { Proxy: method },
    });
    const [busy, idle] = [await connectEstablished(), await connectEstablished()];
    busy.sendHeaders(1, callHeaders(PROXY));
    server.close();
    assert.deepEqual(await idle.seen(), ["GOAWAY last 0 NO_ERROR"]);
    assert.deepEqual(await busy.seen(), ["GOAWAY last 1 NO_ERROR"]);
    assert.equal(server.connectionCount, 1);
    busy.sendData(1, grpcMessage(DRAIN_MESSAGE), true);
    assert.match(
      (await busy.seen()).join(),
      /^HEADERS 1 .* grpc-status=0 grpc-message= END_STREAM$/,
    );
    assert.deepEqual(owners[0]?.events, ["ended", "closed 0"]);
    assert.equal(server.connectionCount, 0);
    for (const { socket } of [busy, idle]) socket.receiveEnd();
    await busy.settled();
    assert.equal(clock.pendingTimers, 0);
  });
});
