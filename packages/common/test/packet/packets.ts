import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { loadSync } from "@grpc/proto-loader";
import type { MessageTypeDefinition } from "@grpc/proto-loader";
import fc from "fast-check";
import { int64FromBigInt } from "../../src/packet/int64.ts";
import type { Int64 } from "../../src/packet/int64.ts";
import { PacketDecoder } from "../../src/packet/packet-decoder.ts";
import { PacketType } from "../../src/packet/packet.ts";
import type { ConnectionId, ControlPacket, DialId } from "../../src/packet/packet.ts";

export const repositoryFile = (path: string) =>
  fileURLToPath(new URL(`../../../../${path}`, import.meta.url));

/** The protobufjs codec of our own .proto file: the oracle for every encoding here. */
export const oracle = loadSync(repositoryFile("proto/tunnel.proto"), {
  longs: String,
  bytes: Buffer,
});
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
export function decode(
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

export const decodeHex = (hex: string) => decode([Buffer.from(hex.replaceAll(" ", ""), "hex")]);
export const withoutPrefix = (message: Buffer) => {
  assert.equal(message[0], 0);
  assert.equal(message.readUInt32BE(1), message.length - 5);
  return message.subarray(5);
};
const dialId = (value: bigint) => int64FromBigInt(value) as DialId;
export const connectionId = (value: bigint) => int64FromBigInt(value) as ConnectionId;

export const int64s = fc.oneof(
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

export const controlPackets: fc.Arbitrary<ControlPacket> = fc
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
export function oracleForm(packet: Decoded): OraclePacket {
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
export const decodeByOracle = (message: Buffer): OraclePacket => {
  const type = oracleDefaults["Packet"] as MessageTypeDefinition<object, object>;
  const decoded = type.deserialize(message) as Record<string, unknown>;
  // `defaults` sets absent messages to null; drop them to compare only what is there.
  return Object.fromEntries(Object.entries(decoded).filter(([, value]) => value !== null));
};

/** A varint written the slow, obvious way. */
export function varintOracle(value: bigint): string {
  let rest = BigInt.asUintN(64, value);
  const bytes: number[] = [];
  do {
    bytes.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0));
    rest >>= 7n;
  } while (rest > 0n);
  return Buffer.from(bytes).toString("hex");
}

/** Fields of a message, to be written in any order. */
export const varintField = (field: number, value: bigint) =>
  Buffer.from(varintOracle(BigInt(field << 3)) + varintOracle(value), "hex");
export const bytesField = (field: number, value: Uint8Array) =>
  Buffer.concat([
    Buffer.from(varintOracle(BigInt((field << 3) | 2)) + varintOracle(BigInt(value.length)), "hex"),
    value,
  ]);
