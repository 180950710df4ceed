import type { ProbeSample } from "./probe.ts";

/** How much heap may seem to grow because of what happens to be open when it is looked at. */
const HEAP_TOLERANCE = 0.03;

const MIB = 1024 * 1024;

/** One line of the summary. */
export interface Finding {
  readonly ok: boolean;
  readonly text: string;
}

/** Whether the heap after garbage collections is no higher in the second half than in the first. */
export function heapFinding(name: string, samples: readonly number[]): Finding {
  const middle = Math.floor(samples.length / 2);
  const first = median(samples.slice(0, middle));
  const second = median(samples.slice(middle));
  return {
    ok: second <= first * (1 + HEAP_TOLERANCE),
    text: `${name}: heap after gc, median of ${samples.length} samples by halves: ${mib(first)}, then ${mib(second)}`,
  };
}

/** Whether a process has the handles that it had before. */
export function handlesFinding(
  name: string,
  before: ProbeSample["handles"],
  after: ProbeSample["handles"],
): Finding {
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

export function mib(bytes: number): string {
  return `${(bytes / MIB).toFixed(2)} MiB`;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [low = NaN, high = NaN] = [sorted[Math.ceil(sorted.length / 2) - 1], sorted[middle]];
  return (low + high) / 2;
}
