/**
 * What is on its way over a link of a given delay: comes out in the order it went in, each item
 * `delayMs` after that.
 *
 * Pure: it has no timer; whoever owns it asks again at {@link nextDueMs}.
 */
export class DelayQueue<Item extends { readonly length: number }> {
  readonly #delayMs: number;
  readonly #capacityBytes: number;
  #entries: Entry<Item>[] = [];
  #head = 0;
  #queuedBytes = 0;

  /**
   * @param capacityBytes - At what size {@link isFull} says stop. At least rate x delay, or the queue
   * itself is the bottleneck.
   */
  constructor(delayMs: number, capacityBytes: number) {
    this.#delayMs = delayMs;
    this.#capacityBytes = capacityBytes;
  }

  get isFull(): boolean {
    return this.#queuedBytes >= this.#capacityBytes;
  }

  get isEmpty(): boolean {
    return this.#head === this.#entries.length;
  }

  /** When the next item comes out; `undefined` if there is none. */
  get nextDueMs(): number | undefined {
    return this.#entries[this.#head]?.dueMs;
  }

  /** Always taken; {@link isFull} is for the caller to heed. */
  push(item: Item, nowMs: number): void {
    this.#entries.push({ item, dueMs: nowMs + this.#delayMs });
    this.#queuedBytes += item.length;
  }

  /** The next item if its time has come. */
  shiftDue(nowMs: number): Item | undefined {
    const entry = this.#entries[this.#head];
    if (entry === undefined || entry.dueMs > nowMs) return undefined;
    this.#head++;
    this.#queuedBytes -= entry.item.length;
    this.#dropTaken();
    return entry.item;
  }

  /** Array.shift moves everything that remains; this does so rarely. */
  #dropTaken(): void {
    if (this.#head === this.#entries.length) {
      this.#entries = [];
    } else if (this.#head >= 1024 && this.#head * 2 >= this.#entries.length) {
      this.#entries = this.#entries.slice(this.#head);
    } else {
      return;
    }
    this.#head = 0;
  }
}

interface Entry<Item> {
  readonly item: Item;
  readonly dueMs: number;
}
