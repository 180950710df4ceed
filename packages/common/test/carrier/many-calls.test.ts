import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { status as Code } from "@grpc/grpc-js";
import { PacketType } from "../../src/packet/packet.ts";
import { OVER_TLS, OVER_UNIX, clientOn, echo, recordingMethod, serve } from "./grpc-setup.ts";
import { oracleClient, packetOutcome } from "./oracle-calls.ts";
import { connectionId } from "./packets.ts";

describe("many calls on one connection", () => {
  it("at a time, by grpc-js: two thousand echo, and none mixes with another", async (t) => {
    const { method, owners } = recordingMethod(echo);
    const server = await serve(t, OVER_TLS, { ProxyService: { Proxy: method } });
    const client = oracleClient(t, server);
    const calls = Array.from({ length: 2_000 }, (_, at) => {
      const call = client.call();
      const outcome = packetOutcome(call);
      call.write({ type: "DATA", data: { connectID: String(at + 1), data: Buffer.from(`${at}`) } });
      return { call, outcome };
    });
    // All of them are open at the same time.
    await Promise.all(calls.map(({ call }) => once(call, "data")));
    assert.equal(owners.filter((owner) => owner.events.length === 0).length, 2_000);
    for (const { call } of calls) call.end({ type: "DRAIN", drain: {} });
    for (const [at, { outcome }] of calls.entries()) {
      const { messages, status } = await outcome;
      assert.equal(status.code, Code.OK);
      assert.equal(messages.length, 2);
      assert.equal(messages[0]?.data?.connectID, String(at + 1));
      assert.equal(messages[0].data.data?.toString(), String(at));
    }
    assert.equal(server.server.connectionCount, 1);
  });

  it("at a time, by our client: two thousand echo a packet of 64 KiB", async (t) => {
    const { method } = recordingMethod(echo);
    const server = await serve(t, OVER_UNIX, { ProxyService: { Proxy: method } });
    const { call, connection } = clientOn(t, await server.connect());
    const payload = Buffer.alloc(64 * 1024, 1);
    const owners = Array.from({ length: 2_000 }, () => {
      const owner = call();
      owner.keepsData = false;
      owner.carrier?.sendData(connectionId(1), payload);
      owner.carrier?.end();
      return owner;
    });
    for (const owner of owners) {
      assert.equal((await owner.whenClosed).code, Code.OK);
      assert.equal(owner.receivedBytes, payload.length);
    }
    assert.equal(connection.streamCount, 0);
  });

  it("one after the other, by grpc-js, which cancels each: ten thousand are not too many", async (t) => {
    const { method, owners } = recordingMethod((owner) => {
      owner.onControl = () => owner.carrier?.send({ type: PacketType.DRAIN });
    });
    const server = await serve(t, OVER_UNIX, { ProxyService: { Proxy: method } });
    const client = oracleClient(t, server);
    for (let count = 0; count < 10_000; count++) {
      const call = client.call();
      call.on("error", () => undefined);
      call.write({ type: "DRAIN", drain: {} });
      await new Promise((resolve) => call.once("data", resolve));
      call.cancel();
    }
    const outcome = client.call();
    const last = packetOutcome(outcome);
    outcome.write({ type: "DRAIN", drain: {} });
    await once(outcome, "data");
    outcome.cancel();
    assert.equal((await last).status.code, Code.CANCELLED);
    assert.equal(server.server.connectionCount, 1);
    await owners.at(-1)?.whenClosed;
    assert.equal(owners.length, 10_001);
    for (const owner of owners) {
      assert.equal(owner.events.filter((event) => event.startsWith("closed")).length, 1);
    }
  });

  it("one after the other, by our client, which gives up or finishes each", async (t) => {
    const { method, owners } = recordingMethod((owner) => {
      owner.onControl = () => owner.carrier?.send({ type: PacketType.DRAIN });
      owner.onEnded = () => owner.carrier?.end();
    });
    const server = await serve(t, OVER_TLS, { ProxyService: { Proxy: method } });
    const { call, connection } = clientOn(t, await server.connect());
    for (let count = 0; count < 4_000; count++) {
      const owner = call();
      const answered = new Promise((resolve) => {
        owner.onControl = resolve;
      });
      owner.carrier?.send({ type: PacketType.DRAIN });
      await answered;
      if (count % 2 === 0) owner.carrier?.end();
      else owner.carrier?.abort({ code: Code.CANCELLED, message: "" });
      await owner.whenClosed;
    }
    assert.equal(connection.isClosed, false);
    assert.equal(connection.streamCount, 0);
    assert.equal(server.server.connectionCount, 1);
    await Promise.all(owners.map((owner) => owner.whenClosed));
  });
});
