import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import {
  heapGrowth,
  heapSizes,
  programBytes,
  readHeapSizes,
  totalBytes,
} from "../../src/soak/heap-sizes.ts";
import type { HeapSizes } from "../../src/soak/heap-sizes.ts";

type Node = readonly [type: "object" | "string" | "code" | "native", name: string, bytes: number];

const TYPES = ["object", "string", "code", "native"];

/** Of a snapshot of these objects. */
function sizesOf(all: readonly Node[]): HeapSizes {
  const strings = ["", ...new Set(all.map(([, name]) => name))];
  return heapSizes({
    snapshot: {
      meta: { node_fields: ["type", "name", "id", "self_size"], node_types: [TYPES, "string"] },
    },
    nodes: all.flatMap(([type, name, bytes], id) => [
      TYPES.indexOf(type),
      strings.indexOf(name),
      id,
      bytes,
    ]),
    strings,
  });
}

describe("the sizes of a heap", () => {
  const sizes = sizesOf([
    ["object", "Socket", 100],
    ["object", "Socket", 120],
    ["string", "a", 40],
    ["code", "dial", 500],
  ]);

  it("are counted by kind", () => {
    assert.deepEqual(
      [...sizes],
      [
        ["Socket", { count: 2, bytes: 220 }],
        ["(string)", { count: 1, bytes: 40 }],
        ["(code)", { count: 1, bytes: 500 }],
      ],
    );
  });

  it("leave out buffers of pools, and no others", () => {
    const memory = "system / JSArrayBufferData";
    const buffers = sizesOf([
      ["native", memory, 288 * 1024],
      ["native", memory, 64 * 1024],
      ["string", "a", 288 * 1024],
    ]);
    assert.equal(programBytes(buffers), (64 + 288) * 1024);
    const tooMany = Array.from({ length: 60 }, (): Node => ["native", memory, 288 * 1024]);
    assert.equal(programBytes(sizesOf(tooMany)), 12 * 288 * 1024);
  });

  it("tell what the program holds from what V8 keeps for itself", () => {
    assert.equal(totalBytes(sizes), 760);
    assert.equal(programBytes(sizes), 260);
  });

  it("tell what the program holds more of later, most bytes first", () => {
    const later = sizesOf([
      ["object", "Socket", 300],
      ["object", "Backend", 30],
      ["object", "Backend", 30],
      ["code", "dial", 500],
      ["code", "more", 500],
    ]);
    assert.deepEqual(heapGrowth(sizes, later), [
      ["Socket", { count: -1, bytes: 80 }],
      ["Backend", { count: 2, bytes: 60 }],
    ]);
    assert.deepEqual(heapGrowth(later, later), []);
  });

  it("are read from what V8 writes", async () => {
    const folder = await mkdtemp(join(tmpdir(), "heap-growth-"));
    try {
      // In a process of its own, whose heap is small.
      const program = `
        class LeftBehind { bytes = 1; }
        v8.writeHeapSnapshot("before");
        globalThis.kept = Array.from({ length: 1000 }, () => new LeftBehind());
        v8.writeHeapSnapshot("after");`;
      await promisify(execFile)(process.execPath, ["--eval", program], { cwd: folder });
      const before = await readHeapSizes(join(folder, "before"));
      const after = await readHeapSizes(join(folder, "after"));
      const ours = after.get("LeftBehind");
      assert.equal(before.get("LeftBehind"), undefined);
      assert.equal(ours?.count, 1000);
      assert.ok(ours.bytes >= 16_000, `${ours.bytes} bytes`);
      assert.ok(programBytes(after) - programBytes(before) >= 16_000);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
