import { FieldReader, WireType } from "./field-reader.ts";
import type { Int64 } from "./int64.ts";
import { PacketType } from "./packet.ts";
import type { ConnectionId, DialId, PacketCounter, PacketHandler } from "./packet.ts";

/** Values of fields 1 to 3 of a payload message, whichever it is; absent ones are zero or empty. */
class PayloadValues {
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

/** What fields 1 to 3 of a payload message hold. */
type PayloadSchema = readonly [FieldKind, FieldKind, FieldKind];

/** The payload messages, by their field number in `Packet`. */
const PAYLOAD_SCHEMAS: Readonly<Record<number, PayloadSchema>> = {
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

/** The payload field that each packet type announces; that of an extension has the type's number. */
const PAYLOAD_FIELD_OF_TYPE: Readonly<Record<number, number>> = {
  [PacketType.DIAL_REQ]: 2,
  [PacketType.DIAL_RSP]: 3,
  [PacketType.CLOSE_REQ]: 5,
  [PacketType.CLOSE_RSP]: 6,
  [PacketType.DATA]: 4,
  [PacketType.DIAL_CLS]: 7,
  [PacketType.DRAIN]: 8,
  [PacketType.CREDIT]: 64,
  [PacketType.FINISH]: 65,
  [PacketType.RESET]: 66,
};

/**
 * Reads a packet of any type from a message that is there whole: any field order, unknown fields.
 *
 * As upstream, `type` decides what a packet is, never which payload field is set. A payload that is
 * missing, or does not belong to the type, counts as an empty one (upstream crashes on it): ids are
 * 0, texts are empty, and each packet with those has its documented answer. Packets of unknown type
 * are counted and dropped.
 */
export class WholePacketDecoder {
  readonly #handler: PacketHandler;
  readonly #counter: PacketCounter;
  readonly #packetFields = new FieldReader();
  readonly #payloadFields = new FieldReader();
  readonly #payload = new PayloadValues();

  constructor(handler: PacketHandler, counter: PacketCounter) {
    this.#handler = handler;
    this.#counter = counter;
  }

  /** Decode the message `bytes[start..end)`, count it, and hand it on. @throws {MalformedPacketError} */
  decode(bytes: Buffer, start: number, end: number): void {
    const fields = this.#packetFields;
    const payload = this.#payload;
    let type = 0;
    let payloadField = 0;
    payload.clear();

    fields.reset(bytes, start, end);
    while (fields.next()) {
      const { field, wireType } = fields;
      const schema = PAYLOAD_SCHEMAS[field];
      if (field === 1 && wireType === WireType.VARINT) {
        // An enum is an int32: as in Go, the low 32 bits count.
        type = Number(BigInt.asIntN(32, BigInt(fields.varint())));
      } else if (schema !== undefined && wireType === WireType.BYTES) {
        // The last payload field set wins; the same one twice is merged (protobuf, "oneof").
        if (field !== payloadField) payload.clear();
        payloadField = field;
        fields.range();
        this.#decodePayload(bytes, fields.rangeStart, fields.rangeEnd, schema);
      } else {
        fields.skip();
      }
    }

    if (PAYLOAD_FIELD_OF_TYPE[type] !== payloadField) payload.clear();
    this.#counter.count(type);
    this.#deliver(type, bytes);
  }

  #decodePayload(bytes: Buffer, start: number, end: number, schema: PayloadSchema): void {
    const fields = this.#payloadFields;
    const payload = this.#payload;
    fields.reset(bytes, start, end);
    while (fields.next()) {
      const { field, wireType } = fields;
      const kind = schema[field - 1];
      if (kind === "int64" && wireType === WireType.VARINT) {
        payload.numbers[field] = fields.varint();
      } else if (kind === "string" && wireType === WireType.BYTES) {
        payload.texts[field] = fields.text();
      } else if (kind === "bytes" && wireType === WireType.BYTES) {
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
