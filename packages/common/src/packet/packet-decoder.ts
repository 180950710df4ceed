import { isUtf8 } from "node:buffer";
import { int64FromBigInt } from "./int64.ts";
import type { Int64 } from "./int64.ts";
import { PacketType } from "./packet.ts";
import type { ConnectionId, DialId, PacketCounter, PacketHandler } from "./packet.ts";

/** A message that is no protobuf `Packet`. Ends the stream it came on, and nothing else. */
export class MalformedPacketError extends Error {
  override readonly name = "MalformedPacketError";

  /** @param message - Go's words, which are what upstream's servers answer. */
  constructor(message = "proto: cannot parse invalid wire-format data") {
    super(message);
  }
}

/** Longest head a DATA packet can have in front of its payload: see `#readDataHead`. */
const LONGEST_DATA_HEAD_BYTES = 2 + 1 + 10 + 1 + 10 + 1 + 10;

/** Nesting of unknown groups that is followed before a message is called malformed. */
const MAX_GROUP_DEPTH = 16;

const WIRE_VARINT = 0;
const WIRE_FIXED64 = 1;
const WIRE_BYTES = 2;
const WIRE_GROUP_START = 3;
const WIRE_GROUP_END = 4;
const WIRE_FIXED32 = 5;

const EMPTY = Buffer.alloc(0);

/** Steps through protobuf fields of a range of a buffer. One instance is reused for all messages. */
class FieldReader {
  #bytes: Buffer = EMPTY;
  #at = 0;
  #end = 0;

  /** Field number and wire type of the field that {@link next} stopped at. */
  field = 0;
  wireType = 0;

  /** Range of the last {@link range} read. */
  rangeStart = 0;
  rangeEnd = 0;

  reset(bytes: Buffer, start: number, end: number): void {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
  }

  /** Move to the next field; false at the end of the range. */
  next(): boolean {
    if (this.#at === this.#end) return false;
    const tag = this.varint();
    // Field numbers have 29 bits; 0 is not one.
    if (typeof tag !== "number" || tag < 8 || tag > 0xffff_ffff) throw new MalformedPacketError();
    this.field = Math.floor(tag / 8);
    this.wireType = tag % 8;
    return true;
  }

  varint(): Int64 {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < 7; i++) {
      if (this.#at === this.#end) throw new MalformedPacketError();
      const byte = this.#bytes[this.#at++]!;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
    let wide = BigInt(value);
    for (let shift = 49n; shift < 70n; shift += 7n) {
      if (this.#at === this.#end) throw new MalformedPacketError();
      const byte = this.#bytes[this.#at++]!;
      // The tenth byte holds bit 63 alone.
      if (shift === 63n && byte > 1) throw new MalformedPacketError();
      wide |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return int64FromBigInt(wide);
    }
    throw new MalformedPacketError();
  }

  /** A length-delimited value: leaves its place in {@link rangeStart} and {@link rangeEnd}. */
  range(): void {
    const length = this.varint();
    if (typeof length !== "number" || length < 0 || length > this.#end - this.#at) {
      throw new MalformedPacketError();
    }
    this.rangeStart = this.#at;
    this.#at += length;
    this.rangeEnd = this.#at;
  }

  text(): string {
    this.range();
    const view = this.#bytes.subarray(this.rangeStart, this.rangeEnd);
    if (!isUtf8(view)) throw new MalformedPacketError("string field contains invalid UTF-8");
    return view.toString("utf8");
  }

  /** Pass over the value of a field that this version does not know, or not with this type. */
  skip(): void {
    this.#skip(this.wireType, 0);
  }

  #skip(wireType: number, depth: number): void {
    switch (wireType) {
      case WIRE_VARINT:
        this.varint();
        return;
      case WIRE_FIXED64:
        this.#advance(8);
        return;
      case WIRE_BYTES:
        this.range();
        return;
      case WIRE_FIXED32:
        this.#advance(4);
        return;
      case WIRE_GROUP_START: {
        const group = this.field;
        if (depth === MAX_GROUP_DEPTH) throw new MalformedPacketError();
        while (this.next()) {
          const inner: number = this.wireType;
          if (inner !== WIRE_GROUP_END) {
            this.#skip(inner, depth + 1);
          } else if (this.field === group) {
            return;
          } else {
            throw new MalformedPacketError();
          }
        }
        throw new MalformedPacketError();
      }
      default:
        throw new MalformedPacketError();
    }
  }

  #advance(bytes: number): void {
    if (bytes > this.#end - this.#at) throw new MalformedPacketError();
    this.#at += bytes;
  }
}

/** Fields 1 to 3 of every payload message, whichever it is; absent ones keep their zero value. */
class PayloadFields {
  readonly numbers: Int64[] = [0, 0, 0, 0];
  readonly texts: string[] = ["", "", "", ""];
  bytesStart = 0;
  bytesEnd = 0;

  clear(): void {
    this.numbers.fill(0);
    this.texts.fill("");
    this.bytesStart = 0;
    this.bytesEnd = 0;
  }
}

type FieldKind = "int64" | "string" | "bytes" | "none";

/** What fields 1 to 3 of each payload message hold, by the message's field number in `Packet`. */
const PAYLOAD_SCHEMA: Readonly<Record<number, readonly [FieldKind, FieldKind, FieldKind]>> = {
  2: ["string", "string", "int64"], // DialRequest: protocol, address, random
  3: ["string", "int64", "int64"], // DialResponse: error, connectID, random
  4: ["int64", "string", "bytes"], // Data: connectID, error, data
  5: ["int64", "none", "none"], // CloseRequest: connectID
  6: ["string", "int64", "none"], // CloseResponse: error, connectID
  7: ["int64", "none", "none"], // CloseDial: random
  8: ["none", "none", "none"], // Drain
  64: ["int64", "int64", "none"], // Credit: connectID, bytes
  65: ["int64", "none", "none"], // Finish: connectID
  66: ["int64", "string", "none"], // Reset: connectID, error
};

/** The payload field that each packet type announces, by type; that of an extension has its number. */
const PAYLOAD_FIELD_OF_TYPE: Readonly<Record<number, number>> = {
  0: 2,
  1: 3,
  2: 5,
  3: 6,
  4: 4,
  5: 7,
  6: 8,
  64: 64,
  65: 65,
  66: 66,
};

const NEED_MORE = -1;
const NOT_PLAIN_DATA = -2;

/**
 * Reads packets from messages that arrive in pieces of any size.
 *
 * A DATA packet in the form every known peer writes (type, then payload message, the bytes last) is
 * cut through: its bytes go to the handler as they arrive, as views. Every other packet, field
 * order or unknown field takes the slow path, which collects the message first.
 *
 * As upstream, `type` decides what a packet is, never which payload field is set. A payload that is
 * missing, or does not belong to the type, counts as an empty one (upstream crashes on it): ids are
 * 0, texts are empty, and each packet with those has its documented answer. Packets of unknown type
 * are counted and dropped.
 */
export class PacketDecoder {
  readonly #handler: PacketHandler;
  readonly #counter: PacketCounter;
  readonly #fields = new FieldReader();
  readonly #payload = new PayloadFields();

  /** Bytes of the current message that have not been pushed yet. */
  #remaining = 0;
  #messageBytes = 0;
  /** Whether the rest of the message is payload of {@link #connectionId}. */
  #streaming = false;
  #pieceSeen = false;
  #connectionId = 0 as ConnectionId;
  /** Whether the message is known to need the slow path. */
  #slow = false;
  /** What was pushed of a message that could not be decided or decoded yet. */
  #held: Buffer = EMPTY;
  #heldBytes = 0;

  constructor(handler: PacketHandler, counter: PacketCounter) {
    this.#handler = handler;
    this.#counter = counter;
  }

  /** Whether the last message begun has been pushed to its end. */
  get idle(): boolean {
    return this.#remaining === 0;
  }

  /** Begin a message of `messageBytes`; the one before must be complete. */
  begin(messageBytes: number): void {
    this.#remaining = messageBytes;
    this.#messageBytes = messageBytes;
    this.#streaming = false;
    this.#slow = false;
    this.#heldBytes = 0;
    if (messageBytes === 0) this.#decode(EMPTY, 0, 0);
  }

  /**
   * Take the next bytes of the current message, `bytes[start..end)`; never beyond its end.
   *
   * @throws {MalformedPacketError} The stream cannot go on.
   */
  push(bytes: Buffer, start: number, end: number): void {
    this.#remaining -= end - start;
    if (this.#streaming) {
      this.#handler.data(this.#connectionId, bytes.subarray(start, end), !this.#pieceSeen);
      this.#pieceSeen = true;
      return;
    }
    if (this.#heldBytes > 0 || this.#slow) {
      this.#hold(bytes, start, end);
      this.#pushHeld();
      return;
    }
    const payloadStart = this.#readDataHead(bytes, start, end);
    if (payloadStart >= 0) {
      this.#stream(bytes, payloadStart, end);
      return;
    }
    if (this.#remaining === 0) {
      this.#decode(bytes, start, end);
      return;
    }
    this.#slow = payloadStart === NOT_PLAIN_DATA;
    this.#hold(bytes, start, end);
  }

  /** Go on with a message whose beginning is in {@link #held}. */
  #pushHeld(): void {
    if (!this.#slow) {
      const payloadStart = this.#readDataHead(this.#held, 0, this.#heldBytes);
      if (payloadStart >= 0) {
        // The view handed on must survive the next message's use of the buffer.
        const held = this.#held;
        this.#held = EMPTY;
        const heldBytes = this.#heldBytes;
        this.#heldBytes = 0;
        this.#stream(held, payloadStart, heldBytes);
        return;
      }
      this.#slow = payloadStart === NOT_PLAIN_DATA;
    }
    if (this.#remaining === 0) {
      const held = this.#held;
      this.#held = EMPTY;
      this.#decode(held, 0, this.#heldBytes);
      this.#heldBytes = 0;
    }
  }

  #stream(bytes: Buffer, start: number, end: number): void {
    this.#counter.count(PacketType.DATA);
    this.#streaming = true;
    this.#pieceSeen = end > start;
    if (end > start) this.#handler.data(this.#connectionId, bytes.subarray(start, end), true);
  }

  #hold(bytes: Buffer, start: number, end: number): void {
    const needed = this.#heldBytes + end - start;
    if (needed > this.#held.length) {
      // Doubling, so that neither an announced length nor one-byte pieces cost more than they bring.
      const capacity = Math.max(LONGEST_DATA_HEAD_BYTES, needed, this.#held.length * 2);
      const larger = Buffer.allocUnsafeSlow(Math.min(capacity, this.#messageBytes));
      this.#held.copy(larger, 0, 0, this.#heldBytes);
      this.#held = larger;
    }
    bytes.copy(this.#held, this.#heldBytes, start, end);
    this.#heldBytes = needed;
  }

  /**
   * Read the head of a DATA packet whose bytes field ends the message. Returns where its payload
   * starts and sets {@link #connectionId}; or {@link NEED_MORE}, or {@link NOT_PLAIN_DATA} when the
   * slow path must look at it.
   */
  #readDataHead(bytes: Buffer, start: number, end: number): number {
    const available = end - start;
    if (available < 3) return available < this.#messageBytes ? NEED_MORE : NOT_PLAIN_DATA;
    if (
      bytes[start] !== 0x08 ||
      bytes[start + 1] !== PacketType.DATA ||
      bytes[start + 2] !== 0x22
    ) {
      return NOT_PLAIN_DATA;
    }
    const undecided = available < Math.min(this.#messageBytes, LONGEST_DATA_HEAD_BYTES);
    const messageEnd = start + this.#messageBytes;
    let at = start + 3;

    // Length of the payload message: it must reach to the end of the packet.
    let length = 0;
    let scale = 1;
    for (;;) {
      if (at === end) return undecided ? NEED_MORE : NOT_PLAIN_DATA;
      const byte = bytes[at++]!;
      length += (byte & 0x7f) * scale;
      if (byte < 0x80) break;
      scale *= 0x80;
      if (scale > 0x1000_0000) return NOT_PLAIN_DATA;
    }
    if (at + length !== messageEnd) return NOT_PLAIN_DATA;

    let connectionId = 0;
    if (at === end) return undecided ? NEED_MORE : NOT_PLAIN_DATA;
    if (bytes[at] === 0x08) {
      at++;
      scale = 1;
      for (;;) {
        if (at === end) return undecided ? NEED_MORE : NOT_PLAIN_DATA;
        const byte = bytes[at++]!;
        connectionId += (byte & 0x7f) * scale;
        if (byte < 0x80) break;
        scale *= 0x80;
        // Beyond seven bytes an id may not fit a number; such ids are rare enough for the slow path.
        if (scale > 0x400_0000_0000) return NOT_PLAIN_DATA;
      }
    }

    if (at === end) return undecided ? NEED_MORE : NOT_PLAIN_DATA;
    if (bytes[at++] !== 0x1a) return NOT_PLAIN_DATA;
    length = 0;
    scale = 1;
    for (;;) {
      if (at === end) return undecided ? NEED_MORE : NOT_PLAIN_DATA;
      const byte = bytes[at++]!;
      length += (byte & 0x7f) * scale;
      if (byte < 0x80) break;
      scale *= 0x80;
      if (scale > 0x1000_0000) return NOT_PLAIN_DATA;
    }
    if (at + length !== messageEnd) return NOT_PLAIN_DATA;
    this.#connectionId = connectionId as ConnectionId;
    return at;
  }

  /** Decode a whole message, any field order, and hand it on. */
  #decode(bytes: Buffer, start: number, end: number): void {
    const fields = this.#fields;
    const payload = this.#payload;
    let type = 0;
    let payloadField = 0;
    payload.clear();

    fields.reset(bytes, start, end);
    while (fields.next()) {
      const field = fields.field;
      if (field === 1 && fields.wireType === WIRE_VARINT) {
        // An enum is an int32: as in Go, the low 32 bits count.
        type = Number(BigInt.asIntN(32, BigInt(fields.varint())));
      } else if (field in PAYLOAD_SCHEMA && fields.wireType === WIRE_BYTES) {
        // The last payload field set wins; the same one twice is merged (protobuf, "oneof").
        if (field !== payloadField) payload.clear();
        payloadField = field;
        fields.range();
        const payloadEnd = fields.rangeEnd;
        this.#decodePayload(bytes, fields.rangeStart, payloadEnd, payloadField);
        fields.reset(bytes, payloadEnd, end);
      } else {
        fields.skip();
      }
    }

    if (PAYLOAD_FIELD_OF_TYPE[type] !== payloadField) payload.clear();
    this.#counter.count(type);
    this.#deliver(type, bytes);
  }

  #decodePayload(bytes: Buffer, start: number, end: number, payloadField: number): void {
    const fields = this.#fields;
    const payload = this.#payload;
    const schema = PAYLOAD_SCHEMA[payloadField]!;
    fields.reset(bytes, start, end);
    while (fields.next()) {
      const kind = fields.field > 3 ? "none" : schema[fields.field - 1];
      if (kind === "int64" && fields.wireType === WIRE_VARINT) {
        payload.numbers[fields.field] = fields.varint();
      } else if (kind === "string" && fields.wireType === WIRE_BYTES) {
        payload.texts[fields.field] = fields.text();
      } else if (kind === "bytes" && fields.wireType === WIRE_BYTES) {
        fields.range();
        payload.bytesStart = fields.rangeStart;
        payload.bytesEnd = fields.rangeEnd;
      } else {
        fields.skip();
      }
    }
  }

  #deliver(type: number, bytes: Buffer): void {
    const { numbers, texts, bytesStart, bytesEnd } = this.#payload;
    switch (type) {
      case PacketType.DIAL_REQ:
        this.#handler.control({
          type,
          dialId: numbers[3] as DialId,
          protocol: texts[1]!,
          address: texts[2]!,
        });
        return;
      case PacketType.DIAL_RSP:
        this.#handler.control({
          type,
          dialId: numbers[3] as DialId,
          connectionId: numbers[2] as ConnectionId,
          error: texts[1]!,
        });
        return;
      case PacketType.CLOSE_REQ:
        this.#handler.control({ type, connectionId: numbers[1] as ConnectionId });
        return;
      case PacketType.CLOSE_RSP:
        this.#handler.control({
          type,
          connectionId: numbers[2] as ConnectionId,
          error: texts[1]!,
        });
        return;
      case PacketType.DATA:
        if (bytesEnd > bytesStart) {
          this.#handler.data(
            numbers[1] as ConnectionId,
            bytes.subarray(bytesStart, bytesEnd),
            true,
          );
        }
        return;
      case PacketType.DIAL_CLS:
        this.#handler.control({ type, dialId: numbers[1] as DialId });
        return;
      case PacketType.DRAIN:
        this.#handler.control({ type });
        return;
      case PacketType.CREDIT:
        // Credit that no number can hold is more than anybody has; negative credit is none.
        this.#handler.control({
          type,
          connectionId: numbers[1] as ConnectionId,
          bytes: Math.max(0, Number(numbers[2])),
        });
        return;
      case PacketType.FINISH:
        this.#handler.control({ type, connectionId: numbers[1] as ConnectionId });
        return;
      case PacketType.RESET:
        this.#handler.control({
          type,
          connectionId: numbers[1] as ConnectionId,
          error: texts[2]!,
        });
        return;
      default:
        return;
    }
  }
}
