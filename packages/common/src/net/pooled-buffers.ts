import { BLOCK_BYTES } from "../recycled-memory.ts";
import { GATHER_BYTES } from "./borrowed-read.ts";
import { BATCH_BYTES } from "./write-together.ts";

/**
 * Sizes, in bytes, of the buffers that are kept for the next use: as many as were needed at once so far,
 * within the bounds beside each (LIMITS.md, "Memory"). Whoever looks for leaks need not count them.
 */
export const POOLED_BUFFER_BYTES: ReadonlySet<number> = new Set([
  BLOCK_BYTES,
  GATHER_BYTES,
  BATCH_BYTES,
]);
