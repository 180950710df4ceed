import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { loadSync } from "@grpc/proto-loader";
import type { MessageTypeDefinition } from "@grpc/proto-loader";
import fc from "fast-check";
import { int64FromBigInt, varintBytes, writeVarint } from "../../src/packet/int64.ts";
import type { Int64 } from "../../src/packet/int64.ts";
import { MalformedPacketError, PacketDecoder } from "../../src/packet/packet-decoder.ts";
import { encodeControl, encodeDataHead } from "../../src/packet/packet-encoder.ts";
import { PacketType } from "../../src/packet/packet.ts";
import type { ConnectionId, ControlPacket, DialId } from "../../src/packet/packet.ts";

const repositoryFile = (path: string) =>
  fileURLToPath(new URL(`../../../../${path}`, import.meta.url));

/** The protobufjs codec of our own .proto file: the oracle for every encoding here. */
const oracle = loadSync(repositoryFile("proto/tunnel.proto"), { longs: String, bytes: Buffer });
const packetType = oracle["Packet"] as MessageTypeDefinition<object, object>;
const typeNames = Object.keys(PacketType) as (keyof typeof PacketType)[];

interface OraclePacket {
  type?: string | number;
  dialRequest?: { protocol?: string; address?: string; random?: string };
  dialResponse?: { error?: string; connectID?: string; random?: string };
  data?: { connectID?: string; error?: string; data?: Buffer };
  closeRequest?: { connectID?: string };
  closeResponse?: { error?: string; connectID?: string };
  closeDial?: { random?: string };
  drain?: object;
  credit?: { connectID?: string; bytes?: string };
  finish?: { connectID?: string };
  reset?: { connectID?: string; error?: string };
}

/** What one message decoded to: a control packet, or the bytes of a DATA packet. */
type Decoded = ControlPacket | { readonly connectionId: Int64; readonly bytes: Buffer };

interface DecodeResult {
  readonly packets: readonly Decoded[];
  readonly counted: readonly number[];
}

/** Feed `messages` to one decoder, cut into pieces as `cut` says. */
function decode(
  messages: readonly Buffer[],
  cut: (message: Buffer) => number[] = () => [],
): DecodeResult {
  const packets: Decoded[] = [];
  const counted: number[] = [];
  let data: { connectionId: Int64; pieces: Buffer[] }[] = [];
  const decoder = new PacketDecoder(
    {
      control: (packet) => packets.push(packet),
      data: (connectionId, piece) => {
        assert.ok(piece.length > 0, "a piece is never empty");
        const packet = data.at(0) ?? { connectionId, pieces: [] };
        assert.equal(packet.connectionId, connectionId);
        // A copy, as the decoder only lends the view.
        packet.pieces.push(Buffer.from(piece));
        data = [packet];
      },
    },
    { count: (type) => counted.push(type) },
  );
  for (const message of messages) {
    data = [];
    decoder.begin(message.length);
    let start = 0;
    for (const end of [...cut(message), message.length]) {
      if (end === start) continue;
      // Each piece arrives in a larger buffer of its own, at an offset.
      const arrived = Buffer.concat([
        Buffer.alloc(3, 0xee),
        message.subarray(start, end),
        Buffer.alloc(2, 0xee),
      ]);
      decoder.push(arrived, 3, 3 + end - start);
      arrived.fill(0xdd);
      start = end;
    }
    assert.ok(decoder.idle);
    for (const { connectionId, pieces } of data) {
      packets.push({ connectionId, bytes: Buffer.concat(pieces) });
    }
  }
  return { packets, counted };
}

const decodeHex = (hex: string) => decode([Buffer.from(hex.replaceAll(" ", ""), "hex")]);
const withoutPrefix = (message: Buffer) => {
  assert.equal(message[0], 0);
  assert.equal(message.readUInt32BE(1), message.length - 5);
  return message.subarray(5);
};
const dialId = (value: bigint) => int64FromBigInt(value) as DialId;
const connectionId = (value: bigint) => int64FromBigInt(value) as ConnectionId;

const int64s = fc.oneof(
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.bigInt({ min: 0n, max: 300n }),
  fc.constantFrom(
    0n,
    1n,
    -1n,
    2n ** 53n - 1n,
    2n ** 53n,
    -(2n ** 53n),
    2n ** 63n - 1n,
    -(2n ** 63n),
  ),
);
const texts = fc.string({ unit: "grapheme", maxLength: 40 });

const controlPackets: fc.Arbitrary<ControlPacket> = fc
  .oneof(
    fc.record({
      type: fc.constant(PacketType.DIAL_REQ),
      dialId: int64s.map(dialId),
      protocol: fc.oneof(fc.constant("tcp"), texts),
      address: texts,
    }),
    fc.record({
      type: fc.constant(PacketType.DIAL_RSP),
      dialId: int64s.map(dialId),
      connectionId: int64s.map(connectionId),
      error: texts,
    }),
    fc.record({ type: fc.constant(PacketType.CLOSE_REQ), connectionId: int64s.map(connectionId) }),
    fc.record({
      type: fc.constant(PacketType.CLOSE_RSP),
      connectionId: int64s.map(connectionId),
      error: texts,
    }),
    fc.record({ type: fc.constant(PacketType.DIAL_CLS), dialId: int64s.map(dialId) }),
    fc.record({ type: fc.constant(PacketType.DRAIN) }),
    fc.record({
      type: fc.constant(PacketType.CREDIT),
      connectionId: int64s.map(connectionId),
      bytes: fc.nat(2 ** 31),
    }),
    fc.record({ type: fc.constant(PacketType.FINISH), connectionId: int64s.map(connectionId) }),
    fc.record({
      type: fc.constant(PacketType.RESET),
      connectionId: int64s.map(connectionId),
      error: texts,
    }),
  )
  .map((packet) => ({ ...packet }));

/** The oracle's form of a packet of ours; zero and empty fields as proto3 reads them. */
function oracleForm(packet: Decoded): OraclePacket {
  if (!("type" in packet)) {
    return {
      type: "DATA",
      data: { connectID: String(packet.connectionId), error: "", data: packet.bytes },
    };
  }
  const type = typeNames.find((name) => PacketType[name] === packet.type)!;
  switch (packet.type) {
    case PacketType.DIAL_REQ: {
      const { protocol, address } = packet;
      return { type, dialRequest: { protocol, address, random: String(packet.dialId) } };
    }
    case PacketType.DIAL_RSP: {
      const { error, connectionId: id } = packet;
      return {
        type,
        dialResponse: { error, connectID: String(id), random: String(packet.dialId) },
      };
    }
    case PacketType.CLOSE_REQ:
      return { type, closeRequest: { connectID: String(packet.connectionId) } };
    case PacketType.CLOSE_RSP:
      return {
        type,
        closeResponse: { error: packet.error, connectID: String(packet.connectionId) },
      };
    case PacketType.DIAL_CLS:
      return { type, closeDial: { random: String(packet.dialId) } };
    case PacketType.DRAIN:
      return { type, drain: {} };
    case PacketType.CREDIT:
      return {
        type,
        credit: { connectID: String(packet.connectionId), bytes: String(packet.bytes) },
      };
    case PacketType.FINISH:
      return { type, finish: { connectID: String(packet.connectionId) } };
    case PacketType.RESET:
      return {
        type,
        reset: { connectID: String(packet.connectionId), error: packet.error },
      };
  }
}

const oracleDefaults = loadSync(repositoryFile("proto/tunnel.proto"), {
  longs: String,
  enums: String,
  bytes: Buffer,
  defaults: true,
  oneofs: false,
});
const decodeByOracle = (message: Buffer): OraclePacket => {
  const type = oracleDefaults["Packet"] as MessageTypeDefinition<object, object>;
  const decoded = type.deserialize(message) as Record<string, unknown>;
  // `defaults` sets absent messages to null; drop them to compare only what is there.
  return Object.fromEntries(Object.entries(decoded).filter(([, value]) => value !== null));
};

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

  it("writes varints of every length as long as it says", () => {
    fc.assert(
      fc.property(int64s, (value) => {
        const id = int64FromBigInt(value);
        const target = Buffer.alloc(10);
        const end = writeVarint(target, 0, id);
        assert.equal(end, varintBytes(id));
        assert.equal(varintOracle(value), target.subarray(0, end).toString("hex"));
      }),
      { numRuns: 2_000 },
    );
  });
});

/** A varint written the slow, obvious way. */
function varintOracle(value: bigint): string {
  let rest = BigInt.asUintN(64, value);
  const bytes: number[] = [];
  do {
    bytes.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0));
    rest >>= 7n;
  } while (rest > 0n);
  return Buffer.from(bytes).toString("hex");
}

/** Fields of a message, to be written in any order. */
const varintField = (field: number, value: bigint) =>
  Buffer.from(varintOracle(BigInt(field << 3)) + varintOracle(value), "hex");
const bytesField = (field: number, value: Uint8Array) =>
  Buffer.concat([
    Buffer.from(varintOracle(BigInt((field << 3) | 2)) + varintOracle(BigInt(value.length)), "hex"),
    value,
  ]);
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

it("uses the same enum numbers as proto/tunnel.proto", () => {
  const names = Object.entries(PacketType).map(([name, number]) => ({ name, number }));
  const definition = oracle["PacketType"] as unknown as {
    type: { value: { name: string; number: number }[] };
  };
  assert.deepEqual(
    definition.type.value.map(({ name, number }) => ({ name, number })),
    names,
  );
  assert.ok(
    packetType.serialize({ type: "DRAIN", drain: {} }).equals(Buffer.from("08064200", "hex")),
  );
});
