import { readFile } from "node:fs/promises";
import { POOLED_BUFFERS } from "@reachback/common";

/** How many objects of one kind a heap holds, and how much memory that is. */
export interface Size {
  readonly count: number;
  readonly bytes: number;
}

/** A heap by kinds of objects: their constructors; in parentheses what V8 knows without one. */
export type HeapSizes = ReadonlyMap<string, Size>;

/** The parts used here of what V8 writes as a heap snapshot. */
export interface HeapSnapshot {
  readonly snapshot: {
    readonly meta: {
      readonly node_fields: readonly string[];
      /** The names of types, then what the other fields are. */
      readonly node_types: readonly [readonly string[], ...unknown[]];
    };
  };
  /** All fields of the first node, of the second, and so on. */
  readonly nodes: readonly number[];
  readonly strings: readonly string[];
}

/** Buffers that are kept for the next use: a rare moment that needs one more lets them become more. */
const POOLED = "(pooled buffer)";

/**
 * What is no part of what a program piles up: what V8 keeps for itself (code, which it goes on to
 * optimize for minutes, what depends on that code, and shapes of objects), and bounded pools.
 */
const KINDS_LEFT_OUT: ReadonlySet<string> = new Set([
  "(code)",
  "(hidden)",
  "(object shape)",
  POOLED,
]);

/** How V8 calls the memory of an ArrayBuffer. */
const BUFFER_MEMORY = "system / JSArrayBufferData";

const NONE: Size = { count: 0, bytes: 0 };

/** Read a file of `v8.writeHeapSnapshot`, which is written after a garbage collection. */
export async function readHeapSizes(path: string): Promise<HeapSizes> {
  return heapSizes(JSON.parse(await readFile(path, "utf8")) as HeapSnapshot);
}

export function heapSizes({ snapshot: { meta }, nodes, strings }: HeapSnapshot): HeapSizes {
  const { node_fields: fields } = meta;
  const [typeNames] = meta.node_types;
  const [typeAt, nameAt, sizeAt] = ["type", "name", "self_size"].map((name) =>
    fields.indexOf(name),
  ) as [number, number, number];
  const sizes = new Map<string, Size>();
  // More of a size than its pool may have are no part of it.
  const poolRoom = new Map(POOLED_BUFFERS);
  for (let node = 0; node < nodes.length; node += fields.length) {
    const type = typeNames[nodes[node + typeAt] ?? 0] ?? "";
    const name = strings[nodes[node + nameAt] ?? 0] ?? "";
    const size = nodes[node + sizeAt] ?? 0;
    const room = name === BUFFER_MEMORY ? (poolRoom.get(size) ?? 0) : 0;
    const isPooled = room > 0;
    if (isPooled) poolRoom.set(size, room - 1);
    const kind = isPooled ? POOLED : type === "object" ? name : `(${type})`;
    const { count, bytes } = sizes.get(kind) ?? NONE;
    sizes.set(kind, { count: count + 1, bytes: bytes + size });
  }
  return sizes;
}

/** What the program holds, without what V8 keeps for itself and what waits in pools. */
export function programBytes(sizes: HeapSizes): number {
  return (
    totalBytes(sizes) - [...KINDS_LEFT_OUT].reduce((sum, kind) => sum + bytesOf(sizes, kind), 0)
  );
}

export function totalBytes(sizes: HeapSizes): number {
  return Array.from(sizes.values()).reduce((sum, { bytes }) => sum + bytes, 0);
}

/** What the program holds more of in `later` than in `earlier`, most bytes first. */
export function heapGrowth(earlier: HeapSizes, later: HeapSizes): [kind: string, more: Size][] {
  return Array.from(later, ([kind, size]): [string, Size] => {
    const before = earlier.get(kind) ?? NONE;
    return [kind, { count: size.count - before.count, bytes: size.bytes - before.bytes }];
  })
    .filter(([kind, { bytes }]) => bytes > 0 && !KINDS_LEFT_OUT.has(kind))
    .sort(([, a], [, b]) => b.bytes - a.bytes);
}

function bytesOf(sizes: HeapSizes, kind: string): number {
  return sizes.get(kind)?.bytes ?? 0;
}
