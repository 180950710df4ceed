import { median } from "../statistics.ts";
import type { Handles } from "./handles.ts";
import type { Size } from "./heap-sizes.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/**
 * How much higher a heap may be in the second half, in bytes. From rest to rest it differs by 2 KiB; but
 * Node keeps a parser of HTTP, 240 bytes, for each of the most requests that it has seen at once, of
 * which a busy machine sees some hundred more at any time, and slabs of 8 and 64 KiB for small buffers.
 */
const HEAP_NOISE_BYTES = 128 * KIB;

const KINDS_SHOWN = 5;

/** One line of the summary. */
export interface Finding {
  readonly ok: boolean;
  readonly text: string;
}

/** A heap at a moment when nothing is open. */
export interface HeapSample {
  /** Without what V8 keeps for itself. */
  readonly programBytes: number;
  readonly totalBytes: number;
  /** Connections of the load so far. */
  readonly connections: number;
}

/**
 * Whether a heap, without what V8 keeps for itself, is no higher in the second half than in the first,
 * by the medians of their samples.
 */
export function heapFinding(name: string, samples: readonly HeapSample[]): Finding {
  const middle = Math.floor(samples.length / 2);
  const halves = [samples.slice(0, middle), samples.slice(middle)] as const;
  const medians = (valueOf: (sample: HeapSample) => number) =>
    halves.map((half) => median(half.map(valueOf))) as [number, number];
  const [first, second] = medians(({ programBytes }) => programBytes);
  const [firstAll, secondAll] = medians(({ totalBytes }) => totalBytes);
  const [firstConnections, secondConnections] = medians(({ connections }) => connections);
  const ok = second - first <= HEAP_NOISE_BYTES;
  const text =
    `${name}: heap after gc, medians of ${halves[0].length} and ${halves[1].length} rests: ` +
    `${mib(first)}, then ${mib(second)}; with V8's code ${mib(firstAll)}, then ${mib(secondAll)}`;
  if (ok) return { ok, text };
  const perConnection = Math.round((second - first) / (secondConnections - firstConnections));
  return {
    ok,
    text:
      `${text}. ${kib(HEAP_NOISE_BYTES)} more are allowed, but these are ${kib(second - first)}, ` +
      `${perConnection} bytes for each connection`,
  };
}

/** Of what a heap has more, for one that has grown. */
export function growthText(growth: readonly (readonly [kind: string, more: Size])[]): string {
  const kinds = growth
    .slice(0, KINDS_SHOWN)
    .map(([kind, { count, bytes }]) => `${count} ${kind} (${kib(bytes)})`);
  return `From the first rest to the last, more of: ${kinds.join(", ")}`;
}

/** Whether a process has the handles that it had before. */
export function handlesFinding(name: string, before: Handles, after: Handles): Finding {
  const ok = isSame(before, after);
  const text = `${name}: handles at the end ${JSON.stringify(after)}`;
  return { ok, text: ok ? text : `${text}, before ${JSON.stringify(before)}` };
}

export function isSame(
  one: Readonly<Record<string, number>>,
  other: Readonly<Record<string, number>>,
): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** Whether nothing is left of what is counted. */
export function emptyFinding(name: string, counts: Readonly<Record<string, number>>): Finding {
  const left = Object.entries(counts).filter(([, count]) => count !== 0);
  const ok = left.length === 0;
  const what = (ok ? Object.keys(counts) : left.map(([key, count]) => `${count} ${key}`)).join(
    ", ",
  );
  return { ok, text: ok ? `${name}: no ${what}` : `${name}: left are ${what}` };
}

function kib(bytes: number): string {
  return `${Math.round(bytes / KIB)} KiB`;
}

export function mib(bytes: number): string {
  return `${(bytes / MIB).toFixed(2)} MiB`;
}
