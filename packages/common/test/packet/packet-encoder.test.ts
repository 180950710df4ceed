import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import fc from "fast-check";
import { encodeControl, encodeDataHead } from "../../src/packet/packet-encoder.ts";
import { PacketType } from "../../src/packet/packet.ts";
import type { ConnectionId, ControlPacket } from "../../src/packet/packet.ts";
import {
  connectionId,
  controlPackets,
  decodeByOracle,
  decodeHex,
  int64s,
  oracleForm,
  repositoryFile,
  withoutPrefix,
} from "./packets.ts";

describe("the packets of extensions", () => {
  const id = { connectionId: connectionId(5n) };
  const examples: Record<string, ControlPacket> = {
    "CREDIT 16384": { type: PacketType.CREDIT, ...id, bytes: 16_384 },
    FINISH: { type: PacketType.FINISH, ...id },
    'RESET "client_lost"': { type: PacketType.RESET, ...id, error: "client_lost" },
  };

  it("are, byte for byte, those of PROTOCOL.md", () => {
    const text = readFileSync(repositoryFile("PROTOCOL.md"), "utf8");
    const [, block = ""] = /<!-- extension packets -->\s+```text\n([^`]*)```/.exec(text) ?? [];
    const written = Object.fromEntries(
      block
        .trimEnd()
        .split("\n")
        .map((line) => line.split(/ {2,}/)),
    ) as Record<string, string>;
    assert.deepEqual(Object.keys(written), Object.keys(examples));
    for (const [name, packet] of Object.entries(examples)) {
      const encoded = withoutPrefix(encodeControl(packet));
      assert.equal(encoded.toString("hex"), written[name]?.replaceAll(" ", ""), name);
      assert.deepEqual(decodeHex(written[name] ?? "").packets, [packet]);
    }
  });
});

describe("packet encoding", () => {
  const golden = JSON.parse(
    readFileSync(repositoryFile("test/golden/packets.json"), "utf8"),
  ) as Record<string, { hex: string }>;

  it("is byte for byte what Go writes, for every recorded packet that we ever send", () => {
    let compared = 0;
    for (const [name, { hex }] of Object.entries(golden)) {
      // A reader's concern only: a missing payload, no data, and the error field of Data.
      if (/no_payload|data_.*_empty|data_error_field/.test(name)) continue;
      const [packet] = decodeHex(hex).packets;
      assert.ok(packet !== undefined, name);
      const encoded =
        "type" in packet
          ? encodeControl(packet)
          : Buffer.concat([
              encodeDataHead(packet.connectionId as ConnectionId, packet.bytes.length),
              packet.bytes,
            ]);
      assert.equal(withoutPrefix(encoded).toString("hex"), hex, name);
      compared++;
    }
    assert.equal(compared, 42);
  });

  it("agrees with protobufjs on random control packets", () => {
    fc.assert(
      fc.property(controlPackets, (packet) => {
        assert.deepEqual(decodeByOracle(withoutPrefix(encodeControl(packet))), oracleForm(packet));
      }),
      { numRuns: 2_000 },
    );
  });

  it("agrees with protobufjs on DATA of random ids and sizes", () => {
    fc.assert(
      fc.property(
        int64s.map(connectionId),
        fc.oneof(
          fc.integer({ min: 1, max: 300 }),
          fc.integer({ min: 16_000, max: 70_000 }),
          fc.constant(2_100_000),
        ),
        (id, size) => {
          const bytes = Buffer.alloc(size, 0x61);
          const message = withoutPrefix(Buffer.concat([encodeDataHead(id, size), bytes]));
          assert.deepEqual(decodeByOracle(message), oracleForm({ connectionId: id, bytes }));
        },
      ),
      { numRuns: 200 },
    );
  });
});
