/** Memory that pieces are put into, one behind the other. */
export interface Block {
  readonly memory: Buffer;
  /** The same, in parts of {@link SLOT_BYTES}. */
  readonly slots: readonly Buffer[];
}

interface CountedBlock extends Block {
  usedBytes: number;
  /** Bytes of pieces that have not been released. */
  heldBytes: number;
  /** Whether it is a reader's alone; see {@link RecycledMemory.lend}. */
  isLent: boolean;
}

/** What a TLS record holds at most. */
export const SLOT_BYTES = 16 * 1024;

/**
 * Room for two pieces, or for two batches of a peer of ours over TLS in whole records; and small enough
 * to stay in the cache.
 */
export const BLOCK_BYTES = 288 * 1024;

/**
 * Most blocks, used and kept for the next use: 13.5 MiB. A piece that stays holds all of its block, so
 * what stalled connections hold is bounded by this as well.
 */
export const MAX_BLOCKS = 48;

/** Most blocks that readers have at a time, so that there are others to copy into. */
const MAX_LENT_BLOCKS = 12;

/**
 * Smaller pieces get memory of Node's own pool: messages, which may wait anywhere. What is larger may
 * be the end of something that was cut where it was read, and can then be written with it as one.
 */
const MIN_PIECE_BYTES = 512;

/** Smaller pieces are copied out of a reader's block, so that a few that stay do not hold it all. */
const MIN_UNCOPIED_BYTES = 4 * 1024;

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
  readonly #blockOf = new WeakMap<ArrayBufferLike, CountedBlock>();
  readonly #free: CountedBlock[] = [];
  /** Counts the blocks that were lost. */
  readonly #lost = new FinalizationRegistry<undefined>(() => {
    this.#blockCount--;
  });
  #blockCount = 0;
  #lentCount = 0;
  #current: CountedBlock | undefined;

  /** Blocks that there are: used, or kept for the next use. */
  get blockCount(): number {
    return this.#blockCount;
  }

  /**
   * `piece` for longer than its owner lends it: itself, where it is in a block of a reader, otherwise
   * a copy. Whoever is done with what is returned, or with a part of it, says {@link release}, once
   * for each byte.
   */
  keep(piece: Buffer): Buffer {
    if (piece.length >= MIN_UNCOPIED_BYTES && piece.buffer.byteLength === BLOCK_BYTES) {
      const block = this.#blockOf.get(piece.buffer);
      if (block?.isLent === true) {
        block.heldBytes += piece.length;
        return piece;
      }
    }
    return this.copy(piece);
  }

  /** A copy of `piece`, to be released as what {@link keep} returns. */
  copy(piece: Buffer): Buffer {
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

  /** The bytes of `piece` are not needed any more. Does nothing for what is not from here. */
  release(piece: Buffer): void {
    if (piece.length === 0 || piece.buffer.byteLength !== BLOCK_BYTES) return;
    const block = this.#blockOf.get(piece.buffer);
    if (block === undefined) return;
    block.heldBytes -= piece.length;
    // Less than nothing means that something was released twice: such a block must not come back.
    if (block.heldBytes === 0) this.#emptied(block);
  }

  /**
   * A block for a reader alone, who hands out pieces of it that are valid during a call, and
   * {@link takeBack}s it. `undefined` while there is none to spare.
   *
   * @param left - How many are to be left for others.
   */
  lend(left = 0): Block | undefined {
    if (this.#lentCount + left >= MAX_LENT_BLOCKS) return undefined;
    const block = this.#free.pop() ?? this.#newBlock();
    if (block === undefined) return undefined;
    block.isLent = true;
    this.#lentCount++;
    return block;
  }

  /** Whether nothing is {@link keep kept} in a block that is lent, so that all of it may be used again. */
  isUnused(block: Block): boolean {
    return (block as CountedBlock).heldBytes === 0;
  }

  /** Its reader is done with a block; what was kept in it stays. */
  takeBack(block: Block): void {
    const counted = block as CountedBlock;
    counted.isLent = false;
    this.#lentCount--;
    if (counted.heldBytes === 0) this.#emptied(counted);
  }

  #emptied(block: CountedBlock): void {
    block.usedBytes = 0;
    if (block !== this.#current && !block.isLent) this.#free.push(block);
  }

  #blockFor(bytes: number): CountedBlock | undefined {
    if (bytes > BLOCK_BYTES) return undefined;
    const current = this.#current;
    if (current !== undefined && current.usedBytes + bytes <= BLOCK_BYTES) return current;
    const next = this.#free.pop() ?? this.#newBlock();
    if (next !== undefined) this.#current = next;
    return next;
  }

  #newBlock(): CountedBlock | undefined {
    if (this.#blockCount === MAX_BLOCKS) return undefined;
    const memory = Buffer.allocUnsafeSlow(BLOCK_BYTES);
    const slots = Array.from({ length: BLOCK_BYTES / SLOT_BYTES }, (_, index) =>
      memory.subarray(SLOT_BYTES * index, SLOT_BYTES * (index + 1)),
    );
    const block: CountedBlock = { memory, slots, usedBytes: 0, heldBytes: 0, isLent: false };
    this.#blockOf.set(memory.buffer, block);
    this.#lost.register(memory.buffer, undefined);
    this.#blockCount++;
    return block;
  }
}

/** What all connections of the process share. */
export const recycledMemory = new RecycledMemory();
