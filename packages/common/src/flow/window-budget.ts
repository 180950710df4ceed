/**
 * Bytes that receive windows may promise beyond their first size, shared by all connections of a
 * tunnel, of a process, or both: a budget can draw on a larger one.
 */
export class WindowBudget {
  /** All that there is. */
  readonly capacityBytes: number;
  readonly #parent: WindowBudget | undefined;
  #usedBytes = 0;

  constructor(capacityBytes: number, parent?: WindowBudget) {
    this.capacityBytes = capacityBytes;
    this.#parent = parent;
  }

  /** What is taken at this moment. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Take up to `bytes`; returns how many there were. */
  take(bytes: number): number {
    const own = Math.min(bytes, this.capacityBytes - this.#usedBytes);
    const taken = this.#parent === undefined ? own : this.#parent.take(own);
    this.#usedBytes += taken;
    return taken;
  }

  /** Give back bytes that were taken. */
  release(bytes: number): void {
    this.#usedBytes -= bytes;
    this.#parent?.release(bytes);
  }
}
