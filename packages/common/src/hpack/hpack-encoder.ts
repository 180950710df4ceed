import { BlockWriter } from "./block-writer.ts";
import { DEFAULT_TABLE_BYTES } from "./dynamic-table.ts";
import { fieldBytes } from "./header-list.ts";
import type { HeaderField, HeaderList } from "./header-list.ts";
import { indexingPolicyOf } from "./indexing-policy.ts";
import { SearchableTable } from "./searchable-table.ts";
import { STATIC_NAMES, STATIC_TABLE } from "./static-table.ts";

/** The first octet's flags, and how many bits below them an integer has (RFC 7541 section 6). */
const INDEXED = { flags: 0x80, prefixBits: 7 } as const;
const LITERAL_INDEXED = { flags: 0x40, prefixBits: 6 } as const;
const LITERAL = { flags: 0x00, prefixBits: 4 } as const;
const LITERAL_NEVER_INDEXED = { flags: 0x10, prefixBits: 4 } as const;
const SIZE_UPDATE = { flags: 0x20, prefixBits: 5 } as const;

type LiteralForm = typeof LITERAL_INDEXED | typeof LITERAL | typeof LITERAL_NEVER_INDEXED;

export interface HpackEncoderOptions {
  /**
   * The most to spend on the dynamic table, in bytes, even if the peer allows more.
   *
   * @defaultValue 4096
   */
  readonly maxTableBytes?: number;
}

/** Encodes the header blocks that we send on one HTTP/2 connection, in their order. */
export class HpackEncoder {
  readonly #ownMaxTableBytes: number;
  readonly #writer = new BlockWriter();
  readonly #table: SearchableTable;
  /** The capacity that the peer's decoder works with. */
  #signalledBytes = DEFAULT_TABLE_BYTES;
  /** The smallest capacity since the last block, which the peer must hear of too. */
  #smallestBytes: number;

  constructor(options: HpackEncoderOptions = {}) {
    this.#ownMaxTableBytes = options.maxTableBytes ?? DEFAULT_TABLE_BYTES;
    this.#smallestBytes = Math.min(this.#ownMaxTableBytes, DEFAULT_TABLE_BYTES);
    this.#table = new SearchableTable(this.#smallestBytes);
  }

  /**
   * Obey the peer's SETTINGS_HEADER_TABLE_SIZE from the next block on. To be called before that
   * SETTINGS frame is acknowledged.
   */
  setMaxTableBytes(peerMaxTableBytes: number): void {
    const capacityBytes = Math.min(peerMaxTableBytes, this.#ownMaxTableBytes);
    this.#smallestBytes = Math.min(this.#smallestBytes, capacityBytes);
    this.#table.setCapacity(capacityBytes);
  }

  /**
   * The block for `headers`, in their order. Names are expected in lower case.
   *
   * It must be sent, and sent before any block encoded after it: both change the peer's table.
   *
   * @throws {RangeError} If a character is above U+00FF. The encoder remains usable.
   */
  encode(headers: HeaderList): Buffer {
    try {
      this.#writeSizeUpdates();
      for (const field of headers) this.#writeField(field);
      return this.#writer.finish();
    } catch (error) {
      this.#forgetUnsentBlock();
      throw error;
    }
  }

  #writeSizeUpdates(): void {
    const capacityBytes = this.#table.capacityBytes;
    if (this.#smallestBytes < this.#signalledBytes) {
      this.#write(SIZE_UPDATE, this.#smallestBytes);
      this.#signalledBytes = this.#smallestBytes;
    }
    if (capacityBytes !== this.#signalledBytes) this.#write(SIZE_UPDATE, capacityBytes);
    this.#signalledBytes = capacityBytes;
    this.#smallestBytes = capacityBytes;
  }

  #writeField(field: HeaderField): void {
    const [name, value] = field;
    const policy = indexingPolicyOf(name);
    if (policy === "neverIndexed") {
      this.#writeLiteral(LITERAL_NEVER_INDEXED, field);
      return;
    }
    const index = STATIC_NAMES.get(name)?.indexByValue.get(value) ?? this.#dynamicIndexOf(field);
    if (index !== undefined) {
      this.#write(INDEXED, index);
    } else if (policy === "literal" || !this.#isWorthIndexing(field)) {
      this.#writeLiteral(LITERAL, field);
    } else {
      this.#writeLiteral(LITERAL_INDEXED, field);
      this.#table.insert(field);
    }
  }

  #writeLiteral(form: LiteralForm, [name, value]: HeaderField): void {
    const nameIndex = STATIC_NAMES.get(name)?.index ?? wireIndex(this.#table.ageOfName(name));
    this.#write(form, nameIndex ?? 0);
    if (nameIndex === undefined) this.#writer.writeString(name);
    this.#writer.writeString(value);
  }

  #dynamicIndexOf([name, value]: HeaderField): number | undefined {
    return wireIndex(this.#table.ageOf(name, value));
  }

  /** One field must not push out most of the others. */
  #isWorthIndexing(field: HeaderField): boolean {
    return fieldBytes(field) <= this.#table.capacityBytes / 2;
  }

  /**
   * The peer will never see what this block put into the table. Empty both tables: the next block
   * begins by shrinking the peer's to nothing.
   */
  #forgetUnsentBlock(): void {
    const capacityBytes = this.#table.capacityBytes;
    this.#writer.discard();
    this.#table.setCapacity(0);
    this.#table.setCapacity(capacityBytes);
    this.#smallestBytes = 0;
    // An update in this block was lost with it, so that no capacity can be taken as known.
    this.#signalledBytes = Infinity;
  }

  #write(form: typeof INDEXED | typeof SIZE_UPDATE | LiteralForm, value: number): void {
    this.#writer.writeInteger(form.flags, form.prefixBits, value);
  }
}

/** The dynamic table follows the static one, newest entry first. */
function wireIndex(age: number | undefined): number | undefined {
  return age === undefined ? undefined : STATIC_TABLE.length + 1 + age;
}
