/**
 * Bytes that receive windows may promise beyond their first size, shared by all connections of a
 * tunnel, of a process, or both: a budget can draw on a larger one.
 */
export class WindowBudget {
  /** All that there is. */
  readonly capacityBytes: number;
  readonly #parent: WindowBudget | undefined;
  #usedBytes = 0;
  /** The most that was taken at once since nothing was, and in spells before: see {@link peakBytes}. */
  #spellPeakBytes = 0;
  #earlierPeakBytes = 0;

  constructor(capacityBytes: number, parent?: WindowBudget) {
    this.capacityBytes = capacityBytes;
    this.#parent = parent;
  }

  /** What is taken at this moment. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /**
   * The most that was taken at once in the spell since nothing was, or in the last spell that took at least half
   * of what had been known before it: one that took less did without, and tells nothing.
   */
  get peakBytes(): number {
    return Math.max(this.#spellPeakBytes, this.#earlierPeakBytes);
  }

  /** Take up to `bytes`; returns how many there were. */
  take(bytes: number): number {
    const own = Math.min(bytes, this.capacityBytes - this.#usedBytes);
    const taken = this.#parent === undefined ? own : this.#parent.take(own);
    this.#usedBytes += taken;
    this.#spellPeakBytes = Math.max(this.#spellPeakBytes, this.#usedBytes);
    return taken;
  }

  /** Give back bytes that were taken. */
  release(bytes: number): void {
    this.#usedBytes -= bytes;
    this.#parent?.release(bytes);
    if (this.#usedBytes > 0) return;
    const wasMuch = this.#spellPeakBytes * 2 >= this.#earlierPeakBytes;
    if (wasMuch) this.#earlierPeakBytes = this.#spellPeakBytes;
    this.#spellPeakBytes = 0;
  }
}
