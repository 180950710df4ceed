import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { Metadata, status as Code } from "@grpc/grpc-js";
import type { Server } from "@grpc/grpc-js";
import { startOracleServer } from "../../../../test/support/grpc-oracle.ts";
import type { OraclePacket, OracleServerCall } from "../../../../test/support/grpc-oracle.ts";
import { PacketType } from "../../src/packet/packet.ts";
import { OVER_TLS, OVER_UNIX, clientOn } from "./grpc-setup.ts";
import type { RecordedOwner, TestClient, Transport } from "./grpc-setup.ts";
import { CONTROL_PACKETS, LARGE_DATA_HEAD_BYTES, connectionId } from "./packets.ts";

const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

function echo(call: OracleServerCall): void {
  call.on("error", () => undefined);
  call.on("data", (packet: OraclePacket) => {
    // What is received has an empty `error`, which would be written and make the packet longer.
    const { connectID = "", data } = packet.data ?? {};
    call.write(data === undefined ? packet : { type: "DATA", data: { connectID, data } });
  });
  call.on("end", () => {
    call.end();
  });
}

/** Bytes of DATA that a call's owner has got, in all. */
function bodyOf(owner: RecordedOwner): Buffer {
  return Buffer.concat(
    owner.packets.flatMap((packet) =>
      "bytes" in packet && !("type" in packet) ? [packet.bytes] : [],
    ),
  );
}

async function open(
  t: TestContext,
  transport: Transport,
  onCall: (call: OracleServerCall) => void,
  service: "ProxyService" | "AgentService" = "ProxyService",
): Promise<TestClient & { oracle: Server }> {
  const { address, credentials } = transport.oracleServer(t);
  const { server, port } = await startOracleServer(service, address, onCall, credentials);
  t.after(() => {
    server.forceShutdown();
  });
  const socket = await transport.connectToOracle(address, port);
  return { ...clientOn(t, socket), oracle: server };
}

for (const transport of [OVER_TLS, OVER_UNIX]) {
  describe(`grpc-js as the server of our client, over ${transport.name}`, () => {
    it("understands, and is understood in, packets of every type", async (t) => {
      const received: OraclePacket[] = [];
      const { call } = await open(t, transport, (oracleCall) => {
        oracleCall.on("data", (packet: OraclePacket) => received.push(packet));
        echo(oracleCall);
      });
      const owner = call();
      for (const [packet] of CONTROL_PACKETS) owner.carrier?.send(packet);
      owner.carrier?.end();
      assert.equal((await owner.whenClosed).code, Code.OK);
      assert.deepEqual(
        owner.packets,
        CONTROL_PACKETS.map(([packet]) => packet),
      );
      assert.deepEqual(
        received.map(({ type }) => type),
        CONTROL_PACKETS.map(([, { type }]) => type),
      );
      assert.deepEqual(owner.events, ["opened", "ended", "closed 0 OK"]);
    });

    it("exchanges DATA of any size with it, up to messages of 4 MiB exactly", async (t) => {
      const { call } = await open(t, transport, echo);
      const owner = call();
      const sizes = [1, 100, 16_384, 65_536, 1_000_000, MAX_MESSAGE_BYTES - LARGE_DATA_HEAD_BYTES];
      const payloads = sizes.map((size, at) => Buffer.alloc(size, at + 1));
      // Of connections of their own, so that each stays a packet.
      for (const [at, payload] of payloads.entries()) {
        owner.carrier?.sendData(connectionId(at + 1), payload);
      }
      owner.carrier?.end();
      assert.equal((await owner.whenClosed).code, Code.OK);
      assert.deepEqual(
        owner.packets.map((packet) => ("type" in packet ? undefined : packet.bytes.length)),
        sizes,
      );
      assert.ok(bodyOf(owner).equals(Buffer.concat(payloads)));
    });

    it("refuses it a message that is too long, and no other call", async (t) => {
      const { call } = await open(t, transport, echo);
      const [owner, other] = [call(), call()];
      owner.carrier?.sendData(connectionId(1), Buffer.alloc(MAX_MESSAGE_BYTES));
      const { code } = await owner.whenClosed;
      assert.equal(code, Code.RESOURCE_EXHAUSTED);
      other.carrier?.send({ type: PacketType.DRAIN });
      other.carrier?.end();
      assert.equal((await other.whenClosed).code, Code.OK);
      assert.equal(other.packets.length, 1);
    });

    it("exchanges metadata with it, names that occur twice included", async (t) => {
      const seen: Record<string, unknown>[] = [];
      const { call } = await open(
        t,
        transport,
        (oracleCall) => {
          seen.push({
            agentid: oracleCall.metadata.get("agentid"),
            agentidentifiers: oracleCall.metadata.get("agentidentifiers"),
            "user-agent": oracleCall.metadata.get("user-agent"),
          });
          const metadata = new Metadata();
          metadata.set("serverid", "srv-1");
          metadata.add("twice", "a");
          metadata.add("twice", "b");
          oracleCall.sendMetadata(metadata);
          oracleCall.end();
        },
        "AgentService",
      );
      const owner = call({
        path: "/AgentService/Connect",
        metadata: [
          ["agentid", "a"],
          ["agentid", "b"],
          ["agentidentifiers", ""],
        ],
      });
      const metadata = await owner.whenOpened;
      await owner.whenClosed;
      assert.deepEqual(seen, [
        { agentid: ["a, b"], agentidentifiers: [""], "user-agent": ["test"] },
      ]);
      assert.deepEqual(
        metadata.filter(([name]) => name === "serverid" || name === "twice"),
        [
          ["serverid", "srv-1"],
          ["twice", "a"],
          ["twice", "b"],
        ],
      );
    });

    const statuses: readonly (readonly [string, Code, string])[] = [
      ["a plain text", Code.UNKNOWN, "expected one agent ID in the context, got []"],
      ["beyond ASCII", Code.PERMISSION_DENIED, "50 % größer ✓\n"],
    ];
    for (const [what, code, details] of statuses) {
      it(`can refuse a call with ${what}, at once or behind data`, async (t) => {
        const { call } = await open(t, transport, (oracleCall) => {
          const isLate = oracleCall.metadata.get("late").length > 0;
          if (isLate) oracleCall.write({ type: "DRAIN", drain: {} });
          oracleCall.on("error", () => undefined);
          oracleCall.emit("error", { code, details });
        });
        const [early, late] = [call(), call({ metadata: [["late", "yes"]] })];
        assert.deepEqual(await early.whenClosed, { code, message: details });
        assert.deepEqual(await late.whenClosed, { code, message: details });
        assert.equal(late.packets.length, 1);
        assert.deepEqual(late.events.slice(0, 2), ["opened", "ended"]);
      });
    }

    it("says so when it does not serve what is called", async (t) => {
      const { call } = await open(t, transport, echo);
      const { code, message } = await call({ path: "/AgentService/Connect" }).whenClosed;
      assert.equal(code, Code.UNIMPLEMENTED);
      assert.match(message, /AgentService/);
    });

    it("goes on sending after it has been told the end", async (t) => {
      const { call } = await open(t, transport, (oracleCall) => {
        oracleCall.on("data", () => undefined);
        oracleCall.on("end", () => {
          for (let at = 0; at < 20; at++) {
            oracleCall.write({
              type: "DATA",
              data: { connectID: "1", data: Buffer.alloc(100_000, at) },
            });
          }
          oracleCall.end();
        });
      });
      const owner = call();
      owner.carrier?.end();
      owner.carrier?.end();
      assert.equal((await owner.whenClosed).code, Code.OK);
      assert.equal(bodyOf(owner).length, 2_000_000);
    });

    it("has the last word: what still waited is dropped, and nothing of the call is left", async (t) => {
      const { call, connection } = await open(t, transport, (oracleCall) => {
        oracleCall.end();
      });
      const owner = call();
      // More than its window, which it never opens.
      while (owner.carrier?.sendData(connectionId(1), Buffer.alloc(100_000)) === true);
      assert.equal((await owner.whenClosed).code, Code.OK);
      assert.equal(connection.streamCount, 0);
      const next = call();
      next.carrier?.end();
      assert.equal((await next.whenClosed).code, Code.OK);
    });

    it("sees a call that is given up as cancelled, and serves the next", async (t) => {
      const cancelled: Promise<unknown>[] = [];
      const { call, connection } = await open(t, transport, (oracleCall) => {
        cancelled.push(once(oracleCall, "cancelled"));
        echo(oracleCall);
      });
      const owner = call();
      owner.carrier?.send({ type: PacketType.DRAIN });
      await owner.whenOpened;
      owner.carrier?.abort({ code: Code.CANCELLED, message: "enough" });
      assert.deepEqual(owner.events.slice(-1), ["closed 1 enough"]);
      assert.equal(connection.streamCount, 0);
      await Promise.all(cancelled);
      const next = call();
      next.carrier?.end();
      assert.equal((await next.whenClosed).code, Code.OK);
    });

    it("that shuts down lets calls finish and takes no new ones", async (t) => {
      const { call, connection, oracle, events } = await open(t, transport, echo);
      const owner = call();
      owner.carrier?.send({ type: PacketType.DRAIN });
      await owner.whenOpened;
      const shutDown = new Promise<void>((resolve) => {
        oracle.tryShutdown(() => {
          resolve();
        });
      });
      while (events.length === 0) await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual(events, ["goaway 0"]);
      assert.equal(connection.canRequest, false);
      owner.carrier?.sendData(connectionId(1), Buffer.from("still here"));
      owner.carrier?.end();
      assert.equal((await owner.whenClosed).code, Code.OK);
      assert.equal(bodyOf(owner).toString(), "still here");
      connection.close();
      await shutDown;
    });

    it("that goes without a word leaves every call UNAVAILABLE", async (t) => {
      const { call, oracle, connection } = await open(t, transport, echo);
      const owners = [call(), call(), call()];
      for (const owner of owners) owner.carrier?.send({ type: PacketType.DRAIN });
      await Promise.all(owners.map((owner) => owner.whenOpened));
      oracle.forceShutdown();
      for (const owner of owners) {
        const { code } = await owner.whenClosed;
        // grpc-js resets the streams first, and may get that out before its socket goes.
        const expected: readonly number[] = [Code.UNAVAILABLE, Code.CANCELLED];
        assert.ok(expected.includes(code), String(code));
      }
      assert.equal(connection.streamCount, 0);
    });

    it("echoes a thousand calls at a time on one connection", async (t) => {
      const { call, connection } = await open(t, transport, echo);
      const owners = Array.from({ length: 1_000 }, () => call());
      for (const [at, owner] of owners.entries()) {
        owner.carrier?.send({ type: PacketType.CLOSE_REQ, connectionId: connectionId(at) });
        owner.carrier?.sendData(connectionId(at), Buffer.from(`payload ${at}`));
        owner.carrier?.end();
      }
      for (const [at, owner] of owners.entries()) {
        assert.equal((await owner.whenClosed).code, Code.OK);
        assert.deepEqual(owner.packets, [
          { type: PacketType.CLOSE_REQ, connectionId: at },
          { connectionId: at, bytes: Buffer.from(`payload ${at}`) },
        ]);
      }
      assert.equal(connection.streamCount, 0);
    });

    it("is sent at its own pace: a slow one holds the sender up, and loses nothing", async (t) => {
      const { call } = await open(t, transport, (oracleCall) => {
        let received = 0;
        oracleCall.on("data", (packet: OraclePacket) => {
          received += packet.data?.data?.length ?? 0;
          oracleCall.pause();
          setImmediate(() => oracleCall.resume());
        });
        oracleCall.on("end", () => {
          oracleCall.write({ type: "CLOSE_RSP", closeResponse: { error: String(received) } });
          oracleCall.end();
        });
      });
      const owner = call();
      let sent = 0;
      let stops = 0;
      const sendMore = () => {
        while (sent < 10_000_000) {
          sent += 50_000;
          if (owner.carrier?.sendData(connectionId(1), Buffer.alloc(50_000)) === false) {
            stops++;
            return;
          }
        }
        owner.carrier?.end();
      };
      owner.onDrained = sendMore;
      sendMore();
      assert.equal((await owner.whenClosed).code, Code.OK);
      assert.deepEqual(owner.packets, [
        { type: PacketType.CLOSE_RSP, connectionId: 0, error: "10000000" },
      ]);
      assert.ok(stops > 10, `stopped ${stops} times`);
      assert.equal(owner.events.filter((event) => event === "drained").length, stops);
    });
  });
}
