import { PerformanceObserver, constants } from "node:perf_hooks";
import type { PerformanceEntry } from "node:perf_hooks";
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Clock } from "./clock.ts";
import { memoryLimitBytes } from "./memory-limit.ts";

/** With more than this, what V8 lets wait does no harm. */
const MUCH_MEMORY_BYTES = 1024 * 1024 * 1024;

/** So large a part of the memory may be garbage. */
const GARBAGE_PARTS = 8;

/**
 * Time between collections: at least so long, and so many times as long as the last one took. On a busy
 * machine that is some 20 ms, and more where the process may use little of a CPU.
 */
const COLLECTION_PAUSE_MS = 500;
const COLLECTION_PAUSE_TIMES = 20;

/** V8's memory, as far as it is needed here. */
export interface Heap {
  /** Bytes of objects and of buffers outside of the heap, garbage included. */
  usedBytes(): number;
  /** Collect all garbage, before it returns. */
  collect(): void;
}

/** Decides when garbage has to be collected. */
export class GarbageBound {
  readonly #allowedBytes: number;
  readonly #heap: Heap;
  readonly #clock: Pick<Clock, "now">;
  #liveBytes: number;
  /** When there may be another collection. */
  #notBeforeMs = -Infinity;

  /** @param allowedBytes - How much of it may wait. */
  constructor(allowedBytes: number, heap: Heap, clock: Pick<Clock, "now">) {
    this.#allowedBytes = allowedBytes;
    this.#heap = heap;
    this.#clock = clock;
    this.#liveBytes = heap.usedBytes();
  }

  /** V8 has collected everything: what is used now is live. */
  allCollected(): void {
    this.#liveBytes = this.#heap.usedBytes();
  }

  /** V8 has collected young objects: what has become more was alive, or is old garbage. */
  youngCollected(): void {
    const usedBytes = this.#heap.usedBytes();
    // Of buffers V8 knows only at the next collection that a full one has freed them.
    this.#liveBytes = Math.min(this.#liveBytes, usedBytes);
    if (usedBytes - this.#liveBytes <= this.#allowedBytes) return;
    const startMs = this.#clock.now();
    if (startMs < this.#notBeforeMs) return;
    this.#heap.collect();
    const endMs = this.#clock.now();
    this.#notBeforeMs =
      endMs + Math.max(COLLECTION_PAUSE_MS, COLLECTION_PAUSE_TIMES * (endMs - startMs));
    this.allCollected();
  }
}

/**
 * Keep garbage to an eighth of the memory or so in a process that has little.
 *
 * V8 lets its heap grow to 256 MiB even where there are 96: of a heap with 12 MiB that live, 40 MiB were
 * used before it collected, and an agent whose hundred connections moved all they could was killed. With
 * little memory V8 also makes little room for young objects, so that more of them become old before they die.
 *
 * @param processes - How many share the memory.
 * @returns how to stop.
 */
export function boundGarbage(
  processes: number,
  clock: Pick<Clock, "now">,
  limitBytes = memoryLimitBytes(),
): () => void {
  if (limitBytes >= MUCH_MEMORY_BYTES) return () => undefined;
  const collect = v8Collect();
  if (collect === undefined) return () => undefined;
  const heap: Heap = { usedBytes: v8UsedBytes, collect };
  const bound = new GarbageBound(limitBytes / processes / GARBAGE_PARTS, heap, clock);
  const observer = new PerformanceObserver((list) => {
    const kinds = list.getEntries().map(kindOf);
    if (kinds.includes(constants.NODE_PERFORMANCE_GC_MAJOR)) bound.allCollected();
    else bound.youngCollected();
  });
  observer.observe({ entryTypes: ["gc"] });
  return () => {
    observer.disconnect();
  };
}

function kindOf(entry: PerformanceEntry): number | undefined {
  return (entry as { readonly detail?: { readonly kind?: number } }).detail?.kind;
}

function v8UsedBytes(): number {
  const { used_heap_size, external_memory } = getHeapStatistics();
  return used_heap_size + external_memory;
}

/** What `node --expose-gc` calls `gc`: contexts that are made while the flag is set have it, in Node 20 to 24. */
function v8Collect(): (() => void) | undefined {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("globalThis.gc") as (() => void) | undefined;
  setFlagsFromString("--no-expose-gc");
  return collect;
}
