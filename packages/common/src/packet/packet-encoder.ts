import { varintBytes, writeVarint } from "./int64.ts";
import type { Int64 } from "./int64.ts";
import { PacketType } from "./packet.ts";
import type { ConnectionId, ControlPacket } from "./packet.ts";
import {
  TAG_BYTES_3,
  TAG_CLOSE_DIAL,
  TAG_CLOSE_REQUEST,
  TAG_CLOSE_RESPONSE,
  TAG_CREDIT,
  TAG_DATA,
  TAG_DIAL_REQUEST,
  TAG_DIAL_RESPONSE,
  TAG_DRAIN,
  TAG_FINISH,
  TAG_RESET,
  TAG_STRING_1,
  TAG_STRING_2,
  TAG_TYPE,
  TAG_VARINT_1,
  TAG_VARINT_2,
  TAG_VARINT_3,
} from "./packet-tags.ts";

/** Compression flag and big-endian length in front of every gRPC message. */
export const MESSAGE_PREFIX_BYTES = 5;

function varintField(value: Int64): number {
  return value === 0 ? 0 : 1 + varintBytes(value);
}

function stringField(byteLength: number): number {
  return byteLength === 0 ? 0 : 1 + varintBytes(byteLength) + byteLength;
}

/** Writes one message: fields that are zero or empty are left out, as proto3 prescribes. */
class MessageWriter {
  readonly bytes: Buffer;
  #at = 0;

  constructor(type: number, payloadTag: number, payloadBytes: number) {
    const messageBytes =
      (type === 0 ? 0 : 2) + varintBytes(payloadTag) + varintBytes(payloadBytes) + payloadBytes;
    this.bytes = Buffer.allocUnsafe(MESSAGE_PREFIX_BYTES + messageBytes);
    this.bytes[0] = 0;
    this.bytes.writeUInt32BE(messageBytes, 1);
    this.#at = MESSAGE_PREFIX_BYTES;
    if (type !== 0) {
      this.bytes[this.#at++] = TAG_TYPE;
      this.bytes[this.#at++] = type;
    }
    // The payload's tag is written even when it is empty: upstream's programs crash without it.
    this.#at = writeVarint(this.bytes, this.#at, payloadTag);
    this.#at = writeVarint(this.bytes, this.#at, payloadBytes);
  }

  varint(tag: number, value: Int64): this {
    if (value !== 0) {
      this.bytes[this.#at++] = tag;
      this.#at = writeVarint(this.bytes, this.#at, value);
    }
    return this;
  }

  string(tag: number, value: string, byteLength: number): this {
    if (byteLength !== 0) {
      this.bytes[this.#at++] = tag;
      this.#at = writeVarint(this.bytes, this.#at, byteLength);
      this.#at += this.bytes.write(value, this.#at, "utf8");
    }
    return this;
  }
}

/** The gRPC message (prefix included) of a control packet, in the field order of Go's encoder. */
export function encodeControl(packet: ControlPacket): Buffer {
  switch (packet.type) {
    case PacketType.DIAL_REQ: {
      const protocolBytes = Buffer.byteLength(packet.protocol);
      const addressBytes = Buffer.byteLength(packet.address);
      const size =
        stringField(protocolBytes) + stringField(addressBytes) + varintField(packet.dialId);
      return new MessageWriter(packet.type, TAG_DIAL_REQUEST, size)
        .string(TAG_STRING_1, packet.protocol, protocolBytes)
        .string(TAG_STRING_2, packet.address, addressBytes)
        .varint(TAG_VARINT_3, packet.dialId).bytes;
    }
    case PacketType.DIAL_RSP: {
      const errorBytes = Buffer.byteLength(packet.error);
      const size =
        stringField(errorBytes) + varintField(packet.connectionId) + varintField(packet.dialId);
      return new MessageWriter(packet.type, TAG_DIAL_RESPONSE, size)
        .string(TAG_STRING_1, packet.error, errorBytes)
        .varint(TAG_VARINT_2, packet.connectionId)
        .varint(TAG_VARINT_3, packet.dialId).bytes;
    }
    case PacketType.CLOSE_REQ:
      return new MessageWriter(
        packet.type,
        TAG_CLOSE_REQUEST,
        varintField(packet.connectionId),
      ).varint(TAG_VARINT_1, packet.connectionId).bytes;
    case PacketType.CLOSE_RSP: {
      const errorBytes = Buffer.byteLength(packet.error);
      const size = stringField(errorBytes) + varintField(packet.connectionId);
      return new MessageWriter(packet.type, TAG_CLOSE_RESPONSE, size)
        .string(TAG_STRING_1, packet.error, errorBytes)
        .varint(TAG_VARINT_2, packet.connectionId).bytes;
    }
    case PacketType.DIAL_CLS:
      return new MessageWriter(packet.type, TAG_CLOSE_DIAL, varintField(packet.dialId)).varint(
        TAG_VARINT_1,
        packet.dialId,
      ).bytes;
    case PacketType.DRAIN:
      return new MessageWriter(packet.type, TAG_DRAIN, 0).bytes;
    case PacketType.CREDIT: {
      const size = varintField(packet.connectionId) + varintField(packet.bytes);
      return new MessageWriter(packet.type, TAG_CREDIT, size)
        .varint(TAG_VARINT_1, packet.connectionId)
        .varint(TAG_VARINT_2, packet.bytes).bytes;
    }
    case PacketType.FINISH:
      return new MessageWriter(packet.type, TAG_FINISH, varintField(packet.connectionId)).varint(
        TAG_VARINT_1,
        packet.connectionId,
      ).bytes;
    case PacketType.RESET: {
      const errorBytes = Buffer.byteLength(packet.error);
      const size = varintField(packet.connectionId) + stringField(errorBytes);
      return new MessageWriter(packet.type, TAG_RESET, size)
        .varint(TAG_VARINT_1, packet.connectionId)
        .string(TAG_STRING_2, packet.error, errorBytes).bytes;
    }
  }
}

/**
 * What goes in front of `payloadBytes` (> 0) of payload to make a DATA packet: gRPC prefix, packet
 * head and the payload's own tag and length. The payload follows as it is, uncopied; it is the last
 * field, which is what lets the receiver hand it on while it arrives.
 */
export function encodeDataHead(connectionId: ConnectionId, payloadBytes: number): Buffer {
  const dataBytes = varintField(connectionId) + 1 + varintBytes(payloadBytes) + payloadBytes;
  const messageBytes = 2 + 1 + varintBytes(dataBytes) + dataBytes;
  const head = Buffer.allocUnsafe(MESSAGE_PREFIX_BYTES + messageBytes - payloadBytes);
  head[0] = 0;
  head[1] = messageBytes >>> 24;
  head[2] = messageBytes >>> 16;
  head[3] = messageBytes >>> 8;
  head[4] = messageBytes;
  head[5] = TAG_TYPE;
  head[6] = PacketType.DATA;
  head[7] = TAG_DATA;
  let at = writeVarint(head, 8, dataBytes);
  if (connectionId !== 0) {
    head[at++] = TAG_VARINT_1;
    at = writeVarint(head, at, connectionId);
  }
  head[at++] = TAG_BYTES_3;
  writeVarint(head, at, payloadBytes);
  return head;
}
