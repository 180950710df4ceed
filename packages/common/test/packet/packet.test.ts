import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { MessageTypeDefinition } from "@grpc/proto-loader";
import { PacketType } from "../../src/packet/packet.ts";
import { oracle } from "./packets.ts";

describe("PacketType", () => {
  it("has the same numbers as proto/tunnel.proto", () => {
    const names = Object.entries(PacketType).map(([name, number]) => ({ name, number }));
    const definition = oracle["PacketType"] as unknown as {
      type: { value: { name: string; number: number }[] };
    };
    assert.deepEqual(
      definition.type.value.map(({ name, number }) => ({ name, number })),
      names,
    );
    assert.ok(
      (oracle["Packet"] as MessageTypeDefinition<object, object>)
        .serialize({ type: "DRAIN", drain: {} })
        .equals(Buffer.from("08064200", "hex")),
    );
  });
});
