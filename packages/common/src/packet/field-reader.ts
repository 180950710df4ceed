import { isUtf8 } from "node:buffer";
import { int64FromBigInt } from "./int64.ts";
import type { Int64 } from "./int64.ts";
import { MalformedPacketError } from "./malformed-packet-error.ts";

/** How the value of a field is written. */
export const WireType = {
  VARINT: 0,
  FIXED64: 1,
  /** A length and so many bytes: strings, bytes and messages. */
  BYTES: 2,
  GROUP_START: 3,
  GROUP_END: 4,
  FIXED32: 5,
} as const;

/** Nesting of unknown groups that is followed before a message is called malformed. */
const MAX_GROUP_DEPTH = 16;

const EMPTY = Buffer.alloc(0);

/**
 * Steps through the protobuf fields of a range of a buffer: the wire format, whatever the fields
 * mean. One instance is reused for all messages.
 */
export class FieldReader {
  #bytes: Buffer = EMPTY;
  #at = 0;
  #end = 0;

  /** Field number and {@link WireType} of the field that {@link next} stopped at. */
  field = 0;
  wireType = 0;

  /** Range of the last {@link range} read. */
  rangeStart = 0;
  rangeEnd = 0;

  /** Read `bytes[start..end)` next. */
  reset(bytes: Buffer, start: number, end: number): void {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
  }

  /**
   * Move to the next field; false at the end of the range. Its value is to be read by one of the
   * methods that follow, or passed over by {@link skip}.
   *
   * @throws {MalformedPacketError} As all of them.
   */
  next(): boolean {
    if (this.#at === this.#end) return false;
    const tag = this.varint();
    // Field numbers have 29 bits; 0 is not one.
    if (typeof tag !== "number" || tag < 8 || tag > 0xffff_ffff) throw new MalformedPacketError();
    this.field = Math.floor(tag / 8);
    this.wireType = tag % 8;
    return true;
  }

  /** The value of an `int64` field; an enum's has to be cut to its 32 bits. */
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

  /** The value of a `bytes` or message field: leaves its place in {@link rangeStart} and {@link rangeEnd}. */
  range(): void {
    const length = this.varint();
    if (typeof length !== "number" || length < 0 || length > this.#end - this.#at) {
      throw new MalformedPacketError();
    }
    this.rangeStart = this.#at;
    this.#at += length;
    this.rangeEnd = this.#at;
  }

  /** The value of a `string` field. */
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
      case WireType.VARINT:
        this.varint();
        return;
      case WireType.FIXED64:
        this.#advance(8);
        return;
      case WireType.BYTES:
        this.range();
        return;
      case WireType.FIXED32:
        this.#advance(4);
        return;
      case WireType.GROUP_START: {
        const group = this.field;
        if (depth === MAX_GROUP_DEPTH) throw new MalformedPacketError();
        while (this.next()) {
          const inner: number = this.wireType;
          if (inner !== WireType.GROUP_END) {
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
