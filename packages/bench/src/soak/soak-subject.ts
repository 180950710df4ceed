import { join } from "node:path";
import { writeHeapSnapshot } from "node:v8";
import { openHandles } from "./handles.ts";
import type { Handles } from "./handles.ts";
import { heapGrowth, programBytes, readHeapSizes, totalBytes } from "./heap-sizes.ts";
import { growthText, heapFinding } from "./verdict.ts";
import type { Finding, HeapSample } from "./verdict.ts";

/** How to look inside a process. */
export interface Inside {
  handles(): Promise<Handles> | Handles;
  /** Let it collect its garbage and write its heap to a file, which stops it for a moment. */
  writeSnapshot(path: string): Promise<void> | void;
}

/** Of the process that asks. */
export const insideHere: Inside = {
  handles: openHandles,
  writeSnapshot: (path) => {
    writeHeapSnapshot(path);
  },
};

/** A process that nothing may be left in. */
export class SoakSubject {
  readonly name: string;
  readonly #inside: Inside;
  readonly #folder: string;
  /** Numbers alone: the soak looks at its own process as well. */
  readonly #samples: HeapSample[] = [];

  /** @param folder - For snapshots of its heap. */
  constructor(name: string, inside: Inside, folder: string) {
    this.name = name;
    this.#inside = inside;
    this.#folder = folder;
  }

  async handles(): Promise<Handles> {
    return this.#inside.handles();
  }

  /** @param connections - Of the load so far. */
  async sampleHeap(connections: number): Promise<void> {
    const path = this.#snapshotPath(this.#samples.length === 0 ? "first" : "last");
    await this.#inside.writeSnapshot(path);
    const sizes = await readHeapSizes(path);
    this.#samples.push({
      programBytes: programBytes(sizes),
      totalBytes: totalBytes(sizes),
      connections,
    });
  }

  /** What the program held when its heap was looked at last; `undefined` before. */
  get heapBytes(): number | undefined {
    return this.#samples.at(-1)?.programBytes;
  }

  /** What its samples say; if the heap has grown, also of what there is more. */
  async heapFinding(): Promise<Finding> {
    const finding = heapFinding(this.name, this.#samples);
    if (finding.ok) return finding;
    const first = await readHeapSizes(this.#snapshotPath("first"));
    const last = await readHeapSizes(this.#snapshotPath("last"));
    return { ok: false, text: `${finding.text}. ${growthText(heapGrowth(first, last))}` };
  }

  #snapshotPath(which: "first" | "last"): string {
    return join(this.#folder, `${this.name}-${which}.heapsnapshot`);
  }
}
