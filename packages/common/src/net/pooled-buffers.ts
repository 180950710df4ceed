import { BLOCK_BYTES, MAX_BLOCKS } from "../recycled-memory.ts";
import { BATCH_BYTES, MAX_KEPT_BATCHES } from "./write-together.ts";

/**
 * Buffers that are kept for the next use: at most how many of which size, in bytes. Whoever looks for
 * leaks need not count these.
 */
export const POOLED_BUFFERS: ReadonlyMap<number, number> = new Map([
  [BLOCK_BYTES, MAX_BLOCKS],
  [BATCH_BYTES, MAX_KEPT_BATCHES],
]);
