import { BlockReader } from "./block-reader.ts";
import { DEFAULT_TABLE_BYTES, DynamicTable } from "./dynamic-table.ts";
import { fieldBytes } from "./header-list.ts";
import type { HeaderField, HeaderList } from "./header-list.ts";
import { HpackError } from "./hpack-error.ts";
import { STATIC_TABLE } from "./static-table.ts";

/** The smallest capacity in between, then the final one (RFC 7541 section 4.2). */
const MAX_SIZE_UPDATES = 2;

const DEFAULT_LIST_BYTES = 65_536;

export interface HpackDecoderOptions {
  /**
   * The dynamic table's largest capacity, in bytes: what we announce as
   * SETTINGS_HEADER_TABLE_SIZE.
   *
   * @defaultValue 4096
   */
  readonly maxTableBytes?: number;

  /**
   * The largest header list to hand out, in bytes as {@link fieldBytes} counts them: what we
   * announce as SETTINGS_MAX_HEADER_LIST_SIZE. It also bounds what a small block can unfold to.
   *
   * @defaultValue 65 536
   */
  readonly maxListBytes?: number;
}

/** A block's fields, or the news that there were more than we are willing to hold. */
export type DecodedBlock =
  { readonly tooLarge: false; readonly headers: HeaderList } | { readonly tooLarge: true };

/** Decodes the header blocks that one peer sends on one HTTP/2 connection, in their order. */
export class HpackDecoder {
  readonly #maxTableBytes: number;
  readonly #maxListBytes: number;
  readonly #table = new DynamicTable(DEFAULT_TABLE_BYTES);
  #capacityLimitBytes: number;

  constructor(options: HpackDecoderOptions = {}) {
    this.#maxTableBytes = options.maxTableBytes ?? DEFAULT_TABLE_BYTES;
    this.#maxListBytes = options.maxListBytes ?? DEFAULT_LIST_BYTES;
    this.#capacityLimitBytes = Math.max(this.#maxTableBytes, DEFAULT_TABLE_BYTES);
  }

  /**
   * Report that the peer has acknowledged our first SETTINGS frame.
   *
   * Until then it may not know `maxTableBytes`, and may use the 4096 bytes that every connection
   * begins with. If `maxTableBytes` is less, the next block must shrink the table.
   */
  settingsAcknowledged(): void {
    this.#capacityLimitBytes = this.#maxTableBytes;
  }

  /**
   * Decode one complete header block: the fragments of a HEADERS frame and its CONTINUATIONs.
   *
   * Every block must come here, also one whose stream is refused or unknown, because it may
   * change the dynamic table. The work is linear in the block's length, however often it refers
   * to a large entry, and after `tooLarge` the connection goes on unharmed. Names and values are
   * not checked: what HTTP/2 allows in them is the caller's business.
   *
   * @throws {HpackError} If the block is malformed, which ends the connection.
   */
  decode(block: Buffer): DecodedBlock {
    const reader = new BlockReader(block);
    const headers: HeaderField[] = [];
    let listBytes = 0;

    for (
      let first = this.#readSizeUpdates(reader);
      first !== undefined;
      first = reader.atEnd ? undefined : reader.readOctet()
    ) {
      const field = this.#readField(reader, first);
      listBytes += fieldBytes(field);
      if (listBytes <= this.#maxListBytes) headers.push(field);
    }
    return listBytes <= this.#maxListBytes ? { tooLarge: false, headers } : { tooLarge: true };
  }

  /** Apply the size updates in front and return the first octet behind them, if there is one. */
  #readSizeUpdates(reader: BlockReader): number | undefined {
    let updates = 0;
    while (!reader.atEnd) {
      const first = reader.readOctet();
      if ((first & 0xe0) !== 0x20) {
        this.#checkCapacity();
        return first;
      }
      if (++updates > MAX_SIZE_UPDATES) throw new HpackError("too many table size updates");
      const capacityBytes = reader.readInteger(first, 5);
      if (capacityBytes > this.#capacityLimitBytes) {
        throw new HpackError(
          `table size update to ${capacityBytes} bytes, above the limit of ${this.#capacityLimitBytes}`,
        );
      }
      this.#table.setCapacity(capacityBytes);
    }
    this.#checkCapacity();
    return undefined;
  }

  #checkCapacity(): void {
    if (this.#table.capacityBytes > this.#capacityLimitBytes) {
      throw new HpackError("a smaller table was acknowledged, but no table size update sent");
    }
  }

  #readField(reader: BlockReader, first: number): HeaderField {
    if (first >= 0x80) return this.#fieldAt(reader.readInteger(first, 7));
    if (first >= 0x40) {
      const field = this.#readLiteral(reader, reader.readInteger(first, 6));
      this.#table.insert(field);
      return field;
    }
    if (first >= 0x20) throw new HpackError("table size update behind a field");
    // "Without indexing" and "never indexed" differ for those who pass a field on; we do not.
    return this.#readLiteral(reader, reader.readInteger(first, 4));
  }

  /** @param nameIndex - Where the name is, or 0 if it follows as text. */
  #readLiteral(reader: BlockReader, nameIndex: number): HeaderField {
    const name = nameIndex === 0 ? reader.readString() : this.#fieldAt(nameIndex)[0];
    return [name, reader.readString()];
  }

  #fieldAt(index: number): HeaderField {
    const field =
      index <= STATIC_TABLE.length
        ? STATIC_TABLE[index - 1]
        : this.#table.at(index - STATIC_TABLE.length - 1);
    if (field === undefined) throw new HpackError(`no header field has index ${index}`);
    return field;
  }
}
