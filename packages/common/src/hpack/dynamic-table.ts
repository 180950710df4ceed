import { fieldBytes } from "./header-list.ts";
import type { HeaderField } from "./header-list.ts";

/** A table's capacity, in bytes, before either end says otherwise (RFC 9113 section 6.5.2). */
export const DEFAULT_TABLE_BYTES = 4096;

/** Slots to begin with: a gRPC peer's whole table. Must be a power of two. */
const INITIAL_SLOTS = 32;

/**
 * The fields that both ends remember, newest first, within a capacity in bytes
 * (RFC 7541 section 2.3.2).
 *
 * A ring buffer: neither inserting nor evicting moves an entry.
 */
export class DynamicTable {
  #slots = new Array<HeaderField | undefined>(INITIAL_SLOTS).fill(undefined);
  /** Slot of the newest entry. */
  #newest = 0;
  #count = 0;
  #bytes = 0;
  #capacityBytes: number;
  readonly #onEvict: ((field: HeaderField) => void) | undefined;

  /** @param onEvict - Told of each entry, oldest first, after it has left the table. */
  constructor(capacityBytes: number, onEvict?: (field: HeaderField) => void) {
    this.#capacityBytes = capacityBytes;
    this.#onEvict = onEvict;
  }

  get count(): number {
    return this.#count;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get capacityBytes(): number {
    return this.#capacityBytes;
  }

  /** The field that `age` others were inserted after, if it is still there. */
  at(age: number): HeaderField | undefined {
    if (age >= this.#count) return undefined;
    return this.#slots[(this.#newest - age) & (this.#slots.length - 1)];
  }

  /**
   * Make `field` the newest entry, evicting the oldest ones until it fits. A field larger than
   * the whole table empties it and is not kept, which is not an error (RFC 7541 section 4.4).
   */
  insert(field: HeaderField): void {
    const addedBytes = fieldBytes(field);
    this.#evictDownTo(this.#capacityBytes - addedBytes);
    if (addedBytes > this.#capacityBytes) return;

    if (this.#count === this.#slots.length) this.#grow();
    this.#newest = (this.#newest + 1) & (this.#slots.length - 1);
    this.#slots[this.#newest] = field;
    this.#count += 1;
    this.#bytes += addedBytes;
  }

  /** Change the capacity, evicting what no longer fits. */
  setCapacity(capacityBytes: number): void {
    this.#capacityBytes = capacityBytes;
    this.#evictDownTo(capacityBytes);
  }

  #evictDownTo(bytes: number): void {
    while (this.#count > 0 && this.#bytes > bytes) {
      const slot = (this.#newest - this.#count + 1) & (this.#slots.length - 1);
      const oldest = this.#slots[slot]!;
      this.#slots[slot] = undefined;
      this.#count -= 1;
      this.#bytes -= fieldBytes(oldest);
      this.#onEvict?.(oldest);
    }
  }

  #grow(): void {
    const grown = new Array<HeaderField | undefined>(this.#slots.length * 2).fill(undefined);
    for (let age = 0; age < this.#count; age++) grown[this.#count - 1 - age] = this.at(age);
    this.#slots = grown;
    this.#newest = this.#count - 1;
  }
}
