import { DynamicTable } from "./dynamic-table.ts";
import type { HeaderField } from "./header-list.ts";

/** The live entries of one name. A serial is the number of insertions before that entry. */
interface NameEntries {
  newestSerial: number;
  readonly serialByValue: Map<string, number>;
}

/**
 * The encoder's dynamic table: finds an entry by its text in constant time, however full the table.
 *
 * Each field may be inserted only while {@link ageOf} does not find it.
 */
export class SearchableTable {
  readonly #table: DynamicTable;
  readonly #byName = new Map<string, NameEntries>();
  #insertions = 0;

  constructor(capacityBytes: number) {
    this.#table = new DynamicTable(capacityBytes, (field) => {
      this.#forget(field);
    });
  }

  get capacityBytes(): number {
    return this.#table.capacityBytes;
  }

  /** How many entries are newer than this field, or `undefined` if it is not in the table. */
  ageOf(name: string, value: string): number | undefined {
    const serial = this.#byName.get(name)?.serialByValue.get(value);
    return serial === undefined ? undefined : this.#insertions - 1 - serial;
  }

  /** The age of the newest entry with this name. */
  ageOfName(name: string): number | undefined {
    const entries = this.#byName.get(name);
    return entries === undefined ? undefined : this.#insertions - 1 - entries.newestSerial;
  }

  /** Insert a field that fits the table. */
  insert(field: HeaderField): void {
    const [name, value] = field;
    // Evicts first: the name's record may go with its last entry.
    this.#table.insert(field);
    const serial = this.#insertions++;
    const entries = this.#byName.get(name);
    if (entries === undefined) {
      this.#byName.set(name, { newestSerial: serial, serialByValue: new Map([[value, serial]]) });
    } else {
      entries.newestSerial = serial;
      entries.serialByValue.set(value, serial);
    }
  }

  setCapacity(capacityBytes: number): void {
    this.#table.setCapacity(capacityBytes);
  }

  #forget([name, value]: HeaderField): void {
    const entries = this.#byName.get(name);
    if (entries === undefined) return;
    entries.serialByValue.delete(value);
    if (entries.serialByValue.size === 0) this.#byName.delete(name);
  }
}
