import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { Metadata, compressionAlgorithms, status as Code } from "@grpc/grpc-js";
import type { OraclePacket } from "../../../../test/support/grpc-oracle.ts";
import type { GrpcMethod } from "../../src/grpc/grpc-service.ts";
import { PacketType } from "../../src/packet/packet.ts";
import {
  OVER_TLS,
  OVER_UNIX,
  RecordedOwner,
  UNCOUNTED,
  echo,
  recordingMethod,
  serve,
} from "./grpc-setup.ts";
import { oracleClient, packetOutcome, rawCaller, rawOutcome, writeAll } from "./oracle-calls.ts";
import { CONTROL_PACKETS, LARGE_DATA_HEAD_BYTES, connectionId } from "./packets.ts";

const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
const PATH = "/ProxyService/Proxy";

/** Statuses that Go's servers were recorded to answer with. */
const GO_STATUS = (
  JSON.parse(
    readFileSync(new URL("../../../../test/golden/agent-metadata.json", import.meta.url), "utf8"),
  ) as { connect_status: Record<string, readonly [number, string]> }
).connect_status;

function dataPacket(payload: Buffer, id = 1): OraclePacket {
  return { type: "DATA", data: { connectID: String(id), data: payload } };
}

/** Fields of a received packet that are set: proto-loader adds which one, and defaults. */
function comparable(packet: OraclePacket): OraclePacket {
  return Object.fromEntries(
    Object.entries(packet).filter(([name, value]) => name !== "payload" && value !== null),
  ) as unknown as OraclePacket;
}

for (const transport of [OVER_TLS, OVER_UNIX]) {
  describe(`grpc-js as a client of our server, over ${transport.name}`, () => {
    it("is understood, and understands, packets of every type", async (t) => {
      const { method, owners } = recordingMethod(echo);
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const call = oracleClient(t, server).call();
      const outcome = packetOutcome(call);
      for (const [, packet] of CONTROL_PACKETS) call.write(packet);
      call.end();
      const { messages, status } = await outcome;
      assert.deepEqual(
        owners[0]?.packets,
        CONTROL_PACKETS.map(([ours]) => ours),
      );
      assert.deepEqual(
        messages.map(comparable),
        CONTROL_PACKETS.map(([, theirs]) => theirs),
      );
      assert.deepEqual([status.code, status.details], [Code.OK, ""]);
      assert.deepEqual(owners[0].events, ["ended", "closed 0"]);
    });

    it("exchanges DATA of any size with it, up to messages of 4 MiB exactly", async (t) => {
      const sizes = [
        0,
        1,
        100,
        16_384,
        65_536,
        1_000_000,
        MAX_MESSAGE_BYTES - LARGE_DATA_HEAD_BYTES,
      ];
      const { method, owners } = recordingMethod((owner) => {
        owner.onEnded = () => {
          for (const packet of owner.packets) {
            if ("bytes" in packet && !("type" in packet)) {
              owner.carrier?.sendData(packet.connectionId, packet.bytes);
            }
          }
          owner.carrier?.end();
        };
      });
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const call = oracleClient(t, server).call();
      const outcome = packetOutcome(call);
      const payloads = sizes.map((size, at) => Buffer.alloc(size, at + 1));
      await writeAll(
        call,
        // Of connections of their own, so that each stays a packet.
        payloads.map((payload, at) => dataPacket(payload, at)),
      );
      call.end();
      const { messages, status } = await outcome;
      // An empty DATA packet is nothing to hand on.
      assert.deepEqual(
        messages.map((packet) => packet.data?.data?.length),
        sizes.slice(1),
      );
      for (const [at, packet] of messages.entries()) {
        assert.equal(packet.data?.connectID, String(at + 1));
        assert.ok(packet.data.data?.equals(payloads[at + 1]!));
      }
      assert.equal(
        owners[0]?.receivedBytes,
        sizes.reduce((sum, size) => sum + size),
      );
      assert.equal(status.code, Code.OK);
    });

    it("is refused a message of 4 MiB and one byte, in Go's words, and nothing else is", async (t) => {
      const { method, owners } = recordingMethod(echo);
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const client = oracleClient(t, server);
      const other = client.call();
      const otherOutcome = packetOutcome(other);
      other.write({ type: "DRAIN", drain: {} });
      const call = client.call();
      const outcome = packetOutcome(call);
      call.write(dataPacket(Buffer.alloc(MAX_MESSAGE_BYTES - LARGE_DATA_HEAD_BYTES + 1)));
      const { status } = await outcome;
      assert.deepEqual([status.code, status.details], GO_STATUS["message of 4194305 bytes"]);
      other.end({ type: "DRAIN", drain: {} });
      const { messages, status: otherStatus } = await otherOutcome;
      assert.equal(messages.length, 2);
      assert.equal(otherStatus.code, Code.OK);
      assert.equal(server.server.connectionCount, 1);
      assert.equal(owners[1]?.receivedBytes, 0);
    });

    it("is told in Go's words that compression is not spoken here", async (t) => {
      const { method } = recordingMethod(echo);
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const call = oracleClient(t, server, "ProxyService", {
        "grpc.default_compression_algorithm": compressionAlgorithms.gzip,
      }).call();
      const outcome = packetOutcome(call);
      call.write({ type: "DRAIN", drain: {} });
      const { status } = await outcome;
      assert.deepEqual([status.code, status.details], GO_STATUS["gzip message"]);
    });

    it("is told in Go's words what it calls and nobody serves", async (t) => {
      const { method } = recordingMethod(echo);
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const raw = rawCaller(t, server);
      const table: readonly (readonly [string, readonly [number, string] | undefined])[] = [
        ["/AgentService/Connect", GO_STATUS["Connect on the frontend listener"]],
        ["/ProxyService/Foo", GO_STATUS["unknown method"]],
        ["/toString/Proxy", [Code.UNIMPLEMENTED, "unknown service toString"]],
        [
          "/ProxyService/constructor",
          [Code.UNIMPLEMENTED, "unknown method constructor for service ProxyService"],
        ],
        ["/a/b/c", [Code.UNIMPLEMENTED, "unknown service a/b"]],
        ["/", [Code.UNIMPLEMENTED, 'malformed method name: "/"']],
        ["/Proxy", [Code.UNIMPLEMENTED, 'malformed method name: "/Proxy"']],
      ];
      for (const [path, expected] of table) {
        const { status } = await rawOutcome(raw(path));
        assert.deepEqual([status.code, status.details], expected, path);
      }
    });

    it("is told INTERNAL for a message that is no packet; its other calls go on", async (t) => {
      const { method } = recordingMethod(echo);
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const raw = rawCaller(t, server);
      const others = Array.from({ length: 10 }, () => {
        const call = raw(PATH);
        return { call, outcome: rawOutcome(call) };
      });
      for (const { call } of others) call.write(Buffer.from("08064200", "hex"));
      for (const malformed of ["ff", "0a", "0805ff", "2205", "12030a0574"]) {
        const call = raw(PATH);
        const outcome = rawOutcome(call);
        call.write(Buffer.from(malformed, "hex"));
        const { status } = await outcome;
        assert.deepEqual([status.code, status.details], GO_STATUS["unparsable message"], malformed);
      }
      for (const { call } of others) call.end(Buffer.from("08064200", "hex"));
      for (const { outcome } of others) {
        const { messages, status } = await outcome;
        assert.deepEqual(
          messages.map((message) => message.toString("hex")),
          ["08064200", "08064200"],
        );
        assert.equal(status.code, Code.OK);
      }
      assert.equal(server.server.connectionCount, 1);
    });

    it("gets what was sent before its bad message, and nothing behind it", async (t) => {
      const { method, owners } = recordingMethod(echo);
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const call = rawCaller(t, server)(PATH);
      const outcome = rawOutcome(call);
      call.write(Buffer.from("08064200", "hex"));
      call.write(Buffer.from("ff", "hex"));
      call.write(Buffer.from("08064200", "hex"));
      const { messages, status } = await outcome;
      assert.equal(messages.length, 1);
      assert.equal(status.code, Code.INTERNAL);
      assert.equal(owners[0]?.packets.length, 1);
      assert.equal(owners[0].events.length, 1);
    });

    it("exchanges metadata with it, names that occur twice included", async (t) => {
      const seen: string[][] = [];
      const { method } = recordingMethod(
        (owner, metadata) => {
          seen.push(
            ...metadata
              .filter(([name]) => name.startsWith("agent") || name === "content-type")
              .map(([name, value]) => [name, value]),
          );
          owner.carrier?.end();
        },
        [
          ["serverid", "srv-1"],
          ["servercount", "3"],
          ["twice", "a"],
          ["twice", "b"],
        ],
      );
      const server = await serve(t, transport, { AgentService: { Connect: method } });
      const metadata = new Metadata();
      metadata.add("agentid", "one");
      metadata.add("agentid", "two words");
      metadata.add("agentidentifiers", "ipv4=1.2.3.4&host=%C3%A4");
      const outcome = await packetOutcome(oracleClient(t, server, "AgentService").call(metadata));
      assert.deepEqual(seen.sort(), [
        ["agentid", "one"],
        ["agentid", "two words"],
        ["agentidentifiers", "ipv4=1.2.3.4&host=%C3%A4"],
        ["content-type", "application/grpc"],
      ]);
      assert.deepEqual(outcome.metadata?.get("serverid"), ["srv-1"]);
      assert.deepEqual(outcome.metadata.get("servercount"), ["3"]);
      assert.deepEqual(outcome.metadata.get("twice").join(), "a, b");
      assert.equal(outcome.status.code, Code.OK);
    });

    it("gets response headers before the first packet where a call is accepted with some", async (t) => {
      const { method } = recordingMethod(undefined, [["serverid", "early"]]);
      const server = await serve(t, transport, { AgentService: { Connect: method } });
      const call = oracleClient(t, server, "AgentService").call();
      call.on("error", () => undefined);
      const [metadata] = (await once(call, "metadata")) as [Metadata];
      assert.deepEqual(metadata.get("serverid"), ["early"]);
      call.cancel();
    });

    const refusals: readonly (readonly [string, number, string])[] = [
      ["a plain text", Code.UNKNOWN, "expected one agent ID in the context, got []"],
      ["beyond ASCII, with percent and line breaks", Code.PERMISSION_DENIED, "50 % größer ✓\r\n\0"],
      ["nothing to say", Code.UNAVAILABLE, ""],
    ];
    for (const [what, code, message] of refusals) {
      it(`is refused a call with ${what}, in a response that is only trailers`, async (t) => {
        const refuse: GrpcMethod = () => ({ code, message });
        const server = await serve(t, transport, { AgentService: { Connect: refuse } });
        const { status, metadata } = await packetOutcome(
          oracleClient(t, server, "AgentService").call(),
        );
        assert.deepEqual([status.code, status.details], [code, message]);
        assert.deepEqual(metadata?.getMap() ?? {}, {});
      });
    }

    it("finishes sending and still gets everything that follows, then the status", async (t) => {
      const { method, owners } = recordingMethod((owner) => {
        let sent = 0;
        const sendMore = () => {
          while (sent < 8 * 1024 * 1024) {
            const isRoom = owner.carrier?.sendData(
              connectionId(1),
              Buffer.alloc(50_000, sent++ & 0xff),
            );
            sent += 49_999;
            if (isRoom === false) return;
          }
          owner.carrier?.end();
        };
        owner.onEnded = sendMore;
        owner.onDrained = sendMore;
      });
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const call = oracleClient(t, server).call();
      let received = 0;
      // Read it slowly at first: whatever waits must not be lost to the status behind it.
      call.on("data", (packet: OraclePacket) => {
        received += packet.data?.data?.length ?? 0;
        if (received > 1024 * 1024) return;
        call.pause();
        setImmediate(() => call.resume());
      });
      const outcome = packetOutcome(call);
      call.end();
      const { status } = await outcome;
      assert.equal(received, 8_400_000);
      assert.equal(status.code, Code.OK);
      assert.deepEqual(owners[0]?.events.at(-1), "closed 0");
    });

    it("is told the end while it is still sending", async (t) => {
      const { method, owners } = recordingMethod((owner) => {
        owner.onControl = () => {
          owner.carrier?.sendData(connectionId(1), Buffer.from("last words"));
          owner.carrier?.end();
          owner.carrier?.end();
          owner.carrier?.send({ type: PacketType.DRAIN });
        };
      });
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const call = oracleClient(t, server).call();
      const outcome = packetOutcome(call);
      call.write({ type: "DRAIN", drain: {} });
      const { messages, status } = await outcome;
      assert.deepEqual(
        messages.map((packet) => packet.data?.data?.toString()),
        ["last words"],
      );
      assert.equal(status.code, Code.OK);
      await owners[0]?.whenClosed;
      assert.deepEqual(owners[0]?.events, ["closed 0"]);
    });

    it("can cancel: the call ends as a Go handler sees it, and the connection lives", async (t) => {
      const { method, owners } = recordingMethod(echo);
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const client = oracleClient(t, server);
      const call = client.call();
      const outcome = packetOutcome(call);
      call.write({ type: "DRAIN", drain: {} });
      await once(call, "data");
      call.cancel();
      assert.equal((await outcome).status.code, Code.CANCELLED);
      assert.deepEqual(await owners[0]?.whenClosed, { code: 1, message: "context canceled" });
      // Node ends what it cancels, so the end may be seen first.
      assert.equal(owners[0]?.events.at(-1), "closed 1 context canceled");
      const next = client.call();
      const nextOutcome = packetOutcome(next);
      next.end();
      assert.equal((await nextOutcome).status.code, Code.OK);
      assert.equal(server.server.connectionCount, 1);
    });

    it("is told why when the server gives a call up, behind what was sent", async (t) => {
      const { method, owners } = recordingMethod((owner) => {
        owner.onControl = () => {
          owner.carrier?.sendData(connectionId(1), Buffer.alloc(100_000));
          owner.carrier?.abort({ code: Code.ABORTED, message: "that will do" });
          assert.deepEqual(owner.events, ["closed 10 that will do"]);
          owner.carrier?.abort({ code: Code.INTERNAL, message: "again" });
          assert.equal(owner.carrier?.isClosed, true);
        };
      });
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const call = oracleClient(t, server).call();
      const outcome = packetOutcome(call);
      call.write({ type: "DRAIN", drain: {} });
      const { messages, status } = await outcome;
      assert.equal(messages[0]?.data?.data?.length, 100_000);
      assert.deepEqual([status.code, status.details], [Code.ABORTED, "that will do"]);
      assert.deepEqual(owners[0]?.events, ["closed 10 that will do"]);
    });

    it("is held to the deadline that it has set, also if it does not do so itself", async (t) => {
      const { method, owners } = recordingMethod();
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const metadata = new Metadata();
      metadata.set("grpc-timeout", "30m");
      const { status } = await rawOutcome(rawCaller(t, server)(PATH, metadata));
      assert.deepEqual(
        [status.code, status.details],
        [Code.DEADLINE_EXCEEDED, "context deadline exceeded"],
      );
      assert.deepEqual(owners[0]?.events, ["closed 4 context deadline exceeded"]);
      const own = await rawOutcome(rawCaller(t, server)(PATH, undefined, 30));
      assert.equal(own.status.code, Code.DEADLINE_EXCEEDED);
      const closed = await owners[1]?.whenClosed;
      assert.ok(closed?.code === Code.DEADLINE_EXCEEDED || closed?.code === Code.CANCELLED);
    });

    it("is told UNAVAILABLE when the server goes without a word", async (t) => {
      const { method, owners } = recordingMethod();
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const call = oracleClient(t, server).call();
      const outcome = packetOutcome(call);
      call.write({ type: "DRAIN", drain: {} });
      while (owners.length === 0) await new Promise((resolve) => setImmediate(resolve));
      server.server.destroy();
      assert.equal((await outcome).status.code, Code.UNAVAILABLE);
      assert.equal(owners[0]?.events.length, 1);
      assert.equal(server.server.connectionCount, 0);
    });

    it("finishes its calls with a server that closes, and makes no more", async (t) => {
      const { method, owners } = recordingMethod(echo);
      const server = await serve(t, transport, { ProxyService: { Proxy: method } });
      const client = oracleClient(t, server);
      const call = client.call();
      const outcome = packetOutcome(call);
      call.write({ type: "DRAIN", drain: {} });
      await once(call, "data");
      server.server.close();
      call.write(dataPacket(Buffer.from("still here")));
      const [packet] = (await once(call, "data")) as [OraclePacket];
      assert.equal(packet.data?.data?.toString(), "still here");
      call.end();
      const { status } = await outcome;
      assert.equal(status.code, Code.OK);
      assert.deepEqual(owners[0]?.events, ["ended", "closed 0"]);
      while (server.server.connectionCount > 0)
        await new Promise((resolve) => setImmediate(resolve));
    });

    it("may announce content types of gRPC's, and gets its own back", async (t) => {
      const owners: RecordedOwner[] = [];
      const connect: GrpcMethod = (call) => {
        const owner = new RecordedOwner();
        owners.push(owner);
        call.accept(UNCOUNTED, owner, []).end();
        return undefined;
      };
      const server = await serve(t, transport, { ProxyService: { Proxy: connect } });
      const metadata = new Metadata();
      metadata.set("content-type", "application/grpc+proto");
      const outcome = await rawOutcome(rawCaller(t, server)(PATH, metadata));
      assert.equal(outcome.status.code, Code.OK);
      await owners[0]?.whenClosed;
      assert.deepEqual(owners[0]?.events, ["closed 0"]);
    });
  });
}
