import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { int64FromBigInt } from "../../src/packet/int64.ts";
import { MalformedPacketError } from "../../src/packet/malformed-packet-error.ts";
import { PacketDecoder } from "../../src/packet/packet-decoder.ts";
import { encodeControl, encodeDataHead } from "../../src/packet/packet-encoder.ts";
import { PacketType } from "../../src/packet/packet.ts";
import type { ConnectionId } from "../../src/packet/packet.ts";
import {
  bytesField,
  controlPackets,
  decode,
  decodeByOracle,
  decodeHex,
  int64s,
  varintField,
  withoutPrefix,
} from "./packets.ts";

const unknownFields = fc.oneof(
  fc
    .tuple(fc.integer({ min: 9, max: 2 ** 28 - 1 }), int64s)
    .map(([field, value]) => varintField(field, value)),
  fc
    .tuple(fc.integer({ min: 9, max: 100_000 }), fc.uint8Array({ maxLength: 40 }))
    .map(([field, value]) => bytesField(field, value)),
  fc.constant(Buffer.from("fd0701020304", "hex")), // field 127, fixed32
  fc.constant(Buffer.from("f9070102030405060708", "hex")), // field 127, fixed64
  fc.constant(Buffer.from("fb0708011a0161fc07", "hex")), // field 127, a group
);
const shuffled = (parts: readonly Buffer[]) =>
  fc.shuffledSubarray([...parts], { minLength: parts.length }).map((order) => Buffer.concat(order));

/** Any legal spelling of a DATA packet: field order and unknown fields inside and outside. */
const spelledData = fc
  .tuple(
    int64s,
    fc.uint8Array({ minLength: 1, maxLength: 80 }),
    fc.array(unknownFields, { maxLength: 2 }),
    fc.array(unknownFields, { maxLength: 2 }),
  )
  .chain(([id, bytes, inner, outer]) =>
    shuffled([varintField(1, id), bytesField(3, bytes), ...inner]).chain((payload) =>
      shuffled([varintField(1, 4n), bytesField(4, payload), ...outer]).map((message) => ({
        message,
        id: int64FromBigInt(id),
        bytes: Buffer.from(bytes),
      })),
    ),
  );

describe("packet decoding", () => {
  it("reads what it wrote, cut at any points", () => {
    fc.assert(
      fc.property(
        fc.array(controlPackets, { maxLength: 5 }),
        fc.integer({ min: 1, max: 7 }),
        (packets, step) => {
          const messages = packets.map((packet) => withoutPrefix(encodeControl(packet)));
          const everyStep = (message: Buffer) =>
            Array.from(
              { length: Math.floor((message.length - 1) / step) },
              (_, i) => (i + 1) * step,
            );
          assert.deepEqual(decode(messages, everyStep).packets, packets);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it("reads DATA in any field order, with unknown fields, cut at any points, as protobufjs does", () => {
    fc.assert(
      fc.property(
        spelledData,
        fc.array(fc.nat(200), { maxLength: 6 }),
        ({ message, id, bytes }, cuts) => {
          const points = cuts.filter((at) => at < message.length).sort((a, b) => a - b);
          const { packets, counted } = decode([message], () => points);
          assert.deepEqual(packets, [{ connectionId: id, bytes }]);
          assert.deepEqual(counted, [PacketType.DATA]);
          const reference = decodeByOracle(message);
          assert.deepEqual(reference.data?.data, bytes);
          assert.equal(reference.data.connectID, String(id));
        },
      ),
      { numRuns: 3_000 },
    );
  });

  it("hands on the payload of DATA as it arrives, without waiting for the rest", () => {
    const seen: string[] = [];
    const decoder = new PacketDecoder(
      { control: () => assert.fail(), data: (id, piece) => seen.push(`${id}:${piece.toString()}`) },
      { count: () => undefined },
    );
    const message = withoutPrefix(
      Buffer.concat([encodeDataHead(7 as ConnectionId, 10), Buffer.from("0123456789")]),
    );
    decoder.begin(message.length);
    const head = message.length - 10;
    decoder.push(message, 0, head + 1);
    assert.deepEqual(seen, ["7:0"]);
    decoder.push(message, head + 1, head + 4);
    assert.deepEqual(seen, ["7:0", "7:123"]);
    decoder.push(message, head + 4, message.length);
    assert.deepEqual(seen, ["7:0", "7:123", "7:456789"]);
  });

  it("hands on the payload as a view into what was pushed, not as a copy", () => {
    let view: Buffer | undefined;
    const decoder = new PacketDecoder(
      { control: () => assert.fail(), data: (_, piece) => (view = piece) },
      { count: () => undefined },
    );
    const message = Buffer.concat([encodeDataHead(1 as ConnectionId, 5), Buffer.from("hello")]);
    decoder.begin(message.length - 5);
    decoder.push(message, 5, message.length);
    assert.equal(view?.buffer, message.buffer);
  });

  it("takes a payload that is missing or of another type for an empty one", () => {
    for (const [hex, expected] of [
      ["", { type: PacketType.DIAL_REQ, dialId: 0, protocol: "", address: "" }],
      ["0801", { type: PacketType.DIAL_RSP, dialId: 0, connectionId: 0, error: "" }],
      ["0802", { type: PacketType.CLOSE_REQ, connectionId: 0 }],
      ["0803", { type: PacketType.CLOSE_RSP, connectionId: 0, error: "" }],
      ["0805", { type: PacketType.DIAL_CLS, dialId: 0 }],
      ["0806", { type: PacketType.DRAIN }],
      // CLOSE_REQ with the payload of a DIAL_CLS
      ["08023a02086f", { type: PacketType.CLOSE_REQ, connectionId: 0 }],
    ] as const) {
      assert.deepEqual(decodeHex(hex).packets, [expected], hex);
    }
    assert.deepEqual(decodeHex("0804").packets, []);
    assert.deepEqual(decodeHex("0804220208011a00").packets, []);
  });

  it("counts and drops packets of unknown type", () => {
    assert.deepEqual(decodeHex("086322020801"), { packets: [], counted: [99] });
    assert.deepEqual(decodeHex("08ffffffffffffffffff01"), { packets: [], counted: [-1] });
  });

  it("lets the last payload field win and merges one that is repeated", () => {
    assert.deepEqual(decodeHex("0802 2a020801 3a02086f 2a020805").packets, [
      { type: PacketType.CLOSE_REQ, connectionId: 5 },
    ]);
    assert.deepEqual(decodeHex("0801 1a021001 1a02186f").packets, [
      { type: PacketType.DIAL_RSP, connectionId: 1, dialId: 111, error: "" },
    ]);
  });

  it("treats a known field of another wire type as unknown", () => {
    assert.deepEqual(decodeHex("0802 2a03 0a01 78").packets, [
      { type: PacketType.CLOSE_REQ, connectionId: 0 },
    ]);
    assert.deepEqual(decodeHex("0802 2802").packets, [
      { type: PacketType.CLOSE_REQ, connectionId: 0 },
    ]);
  });

  const malformed: readonly (readonly [string, string])[] = [
    ["a varint without end", "08"],
    ["a varint of eleven bytes", "08ffffffffffffffffffff01"],
    ["a varint beyond 64 bits", "08ffffffffffffffffff02"],
    ["field number 0", "0001"],
    ["a payload longer than the message", "08022a050801"],
    ["a DATA payload longer than its message", "0804220408011a0568"],
    ["a field cut off inside the payload", "08022a0108"],
    ["a text that is not UTF-8", "080332040a02c328"],
    ["an unknown wire type", "0f00"],
    ["a group end without a start", "0c"],
    ["a group without an end", "0b0801"],
    ["a group closed by another number", "0b14"],
    ["a fixed64 cut short", "f907010203"],
    ["groups nested too deep", "0b".repeat(40) + "0c".repeat(40)],
  ];
  for (const [what, hex] of malformed) {
    it(`refuses ${what}`, () => {
      assert.throws(() => decodeHex(hex), MalformedPacketError);
    });
  }

  it("throws nothing but MalformedPacketError on random bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (random) => {
        try {
          decode([Buffer.from(random)]);
        } catch (error) {
          assert.ok(error instanceof MalformedPacketError);
        }
      }),
      { numRuns: 5_000 },
    );
  });

  it("holds no more than it was given of a message whose length is only announced", () => {
    const decoder = new PacketDecoder(
      { control: () => undefined, data: () => assert.fail() },
      { count: () => undefined },
    );
    const before = process.memoryUsage().arrayBuffers;
    const decoders = Array.from({ length: 200 }, () => {
      decoder.begin(4 << 20);
      const one = new PacketDecoder(
        { control: () => undefined, data: () => assert.fail() },
        { count: () => undefined },
      );
      one.begin(4 << 20);
      one.push(Buffer.from("0802", "hex"), 0, 2);
      return one;
    });
    assert.equal(decoders.length, 200);
    assert.ok(process.memoryUsage().arrayBuffers - before < 4 << 20);
  });
});
