/** Memory that pieces are copied into, one behind the other. */
interface Block {
  readonly memory: Buffer;
  usedBytes: number;
  /** Bytes of pieces that have not been released. */
  heldBytes: number;
}

/** Large enough for what one turn of the event loop brings, small enough to stay in the cache. */
export const BLOCK_BYTES = 256 * 1024;

/**
 * Most blocks, used and kept for the next use: 8 MiB. A piece that stays holds all of its block, so
 * what stalled connections hold is bounded by this as well.
 */
export const MAX_BLOCKS = 32;

/**
 * Smaller pieces get memory of Node's own pool: messages, which may wait anywhere. What is larger may
 * be the end of something that was cut where it was read, and can then be written with it as one.
 */
const MIN_PIECE_BYTES = 512;

/**
 * Memory for the bytes that pass through, used again as soon as they have left.
 *
 * A buffer from the allocator for every piece read costs a sixth of the CPU per GiB, for its
 * creation, its collection, and a cache that never sees an address twice.
 *
 * Nothing has to be released: a block with a piece that nobody releases is left to the garbage
 * collector, and with all of them in use, pieces get memory of their own.
 */
export class RecycledMemory {
  readonly #blockOf = new WeakMap<ArrayBufferLike, Block>();
  readonly #free: Block[] = [];
  /** Counts the blocks that were lost. */
  readonly #lost = new FinalizationRegistry<undefined>(() => {
    this.#blockCount--;
  });
  #blockCount = 0;
  #current: Block | undefined;

  /** Blocks that there are: used, or kept for the next use. */
  get blockCount(): number {
    return this.#blockCount;
  }

  /**
   * A copy of `piece`, whose own memory may be overwritten then. Whoever is done with the copy, or
   * with a part of it, says {@link release}, once for each byte.
   */
  keep(piece: Buffer): Buffer {
    const bytes = piece.length;
    if (bytes < MIN_PIECE_BYTES) return Buffer.from(piece);
    const block = this.#blockFor(bytes);
    if (block === undefined) {
      const copy = Buffer.allocUnsafeSlow(bytes);
      copy.set(piece);
      return copy;
    }
    const start = block.usedBytes;
    block.memory.set(piece, start);
    block.usedBytes = start + bytes;
    block.heldBytes += bytes;
    return block.memory.subarray(start, block.usedBytes);
  }

  /** The bytes of `piece` are not needed any more. Does nothing for what {@link keep} did not make. */
  release(piece: Buffer): void {
    if (piece.length === 0 || piece.buffer.byteLength !== BLOCK_BYTES) return;
    const block = this.#blockOf.get(piece.buffer);
    if (block === undefined) return;
    block.heldBytes -= piece.length;
    // Less than nothing means that something was released twice: such a block must not come back.
    if (block.heldBytes !== 0) return;
    block.usedBytes = 0;
    if (block !== this.#current) this.#free.push(block);
  }

  #blockFor(bytes: number): Block | undefined {
    if (bytes > BLOCK_BYTES) return undefined;
    const current = this.#current;
    if (current !== undefined && current.usedBytes + bytes <= BLOCK_BYTES) return current;
    const next = this.#free.pop() ?? this.#newBlock();
    if (next !== undefined) this.#current = next;
    return next;
  }

  #newBlock(): Block | undefined {
    if (this.#blockCount === MAX_BLOCKS) return undefined;
    const memory = Buffer.allocUnsafeSlow(BLOCK_BYTES);
    const block: Block = { memory, usedBytes: 0, heldBytes: 0 };
    this.#blockOf.set(memory.buffer, block);
    this.#lost.register(memory.buffer, undefined);
    this.#blockCount++;
    return block;
  }
}

/** What all connections of the process share. */
export const recycledMemory = new RecycledMemory();
