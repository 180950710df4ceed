import { PacketType } from "./packet.ts";
import type { ConnectionId } from "./packet.ts";
import { TAG_BYTES_3, TAG_DATA, TAG_TYPE, TAG_VARINT_1 } from "./packet-tags.ts";

/** So far this is plain DATA: look again, from the message's beginning, when there is more of it. */
export const NEED_MORE = -1;
/** The message is another packet, or DATA in another form. */
export const NOT_PLAIN_DATA = -2;

/** Beyond five bytes a length is more than any message's. */
const MAX_LENGTH_BYTES = 5;
/** Beyond seven bytes an id may not fit a number; such ids are rare enough for the slow path. */
const MAX_ID_BYTES = 7;

/** With so many bytes of a message {@link DataHeadReader} never needs more. */
export const MAX_DATA_HEAD_BYTES =
  2 + 1 + MAX_LENGTH_BYTES + 1 + MAX_ID_BYTES + 1 + MAX_LENGTH_BYTES;

/**
 * Reads what stands in front of the payload of a DATA packet, in the form that every known peer
 * writes (as `encodeDataHead` does): the packet's type, then the payload message; in it the
 * connection's id, if it is not 0, and last the bytes.
 */
export class DataHeadReader {
  /** Whose bytes they are; set by a {@link read} that has found them. */
  connectionId = 0 as ConnectionId;

  #at = 0;
  /** What to return where the bytes end within the head: more will come, or the message is over. */
  #cut = NEED_MORE;

  /**
   * Look at `bytes[start..end)`, the beginning of a message of `messageBytes`, or all of it.
   *
   * @returns Where in `bytes` the payload begins, which goes on to the end of the message; or
   *   {@link NEED_MORE}, or {@link NOT_PLAIN_DATA}.
   */
  read(bytes: Buffer, start: number, end: number, messageBytes: number): number {
    const messageEnd = start + messageBytes;
    this.#cut = end < messageEnd ? NEED_MORE : NOT_PLAIN_DATA;
    if (end - start < 3) return this.#cut;
    if (
      bytes[start] !== TAG_TYPE ||
      bytes[start + 1] !== PacketType.DATA ||
      bytes[start + 2] !== TAG_DATA
    ) {
      return NOT_PLAIN_DATA;
    }
    this.#at = start + 3;

    const dataBytes = this.#varint(bytes, end, MAX_LENGTH_BYTES);
    if (dataBytes < 0) return dataBytes;
    if (this.#at + dataBytes !== messageEnd) return NOT_PLAIN_DATA;

    let connectionId = 0;
    if (this.#at === end) return this.#cut;
    if (bytes[this.#at] === TAG_VARINT_1) {
      this.#at++;
      connectionId = this.#varint(bytes, end, MAX_ID_BYTES);
      if (connectionId < 0) return connectionId;
    }

    if (this.#at === end) return this.#cut;
    if (bytes[this.#at++] !== TAG_BYTES_3) return NOT_PLAIN_DATA;
    const payloadBytes = this.#varint(bytes, end, MAX_LENGTH_BYTES);
    if (payloadBytes < 0) return payloadBytes;
    if (this.#at + payloadBytes !== messageEnd) return NOT_PLAIN_DATA;
    this.connectionId = connectionId as ConnectionId;
    return this.#at;
  }

  /** The number at {@link #at}, which moves behind it; negative: what {@link read} is to return. */
  #varint(bytes: Buffer, end: number, maxBytes: number): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < maxBytes; i++) {
      if (this.#at === end) return this.#cut;
      const byte = bytes[this.#at++]!;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
    return NOT_PLAIN_DATA;
  }
}
