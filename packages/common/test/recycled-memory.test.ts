import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { RecycledMemory } from "../src/recycled-memory.ts";

const KIB = 1024;
const BLOCK_BYTES = 288 * KIB;

describe("RecycledMemory", () => {
  it("keeps copies of any size, whatever happens to their originals", () => {
    const memory = new RecycledMemory();
    for (const bytes of [1, 511, 512, 64 * KIB, BLOCK_BYTES, BLOCK_BYTES + 1]) {
      const piece = Buffer.alloc(bytes, "a");
      const kept = memory.keep(piece);
      piece.fill("b");
      assert.deepEqual(kept, Buffer.alloc(bytes, "a"), `${bytes} bytes`);
    }
  });

  it("puts pieces one behind the other, and begins again when all have been released", () => {
    const memory = new RecycledMemory();
    const piece = Buffer.alloc(16 * KIB);
    const first = memory.keep(piece);
    const second = memory.keep(piece);
    assert.equal(second.buffer, first.buffer);
    assert.equal(second.byteOffset, first.byteOffset + first.length);
    memory.release(second);
    assert.notEqual(memory.keep(piece).byteOffset, second.byteOffset);
    memory.release(first.subarray(0, 1));
    memory.release(first.subarray(1));
    memory.release(second);
    assert.equal(memory.keep(piece).byteOffset, first.byteOffset);
    assert.equal(memory.blockCount, 1);
  });

  it("needs no more blocks than pieces are held in", () => {
    const memory = new RecycledMemory();
    const piece = Buffer.alloc(64 * KIB);
    for (let round = 0; round < 100; round++) {
      const held = Array.from({ length: 12 }, () => memory.keep(piece));
      for (const kept of held) memory.release(kept);
    }
    assert.equal(memory.blockCount, 3);
  });

  it("holds 13.5 MiB at most; further pieces have memory of their own", () => {
    const memory = new RecycledMemory();
    const piece = Buffer.alloc(BLOCK_BYTES, "a");
    const held = Array.from({ length: 60 }, () => memory.keep(piece));
    assert.equal(memory.blockCount, 48);
    for (const kept of held) assert.deepEqual(kept, piece);
    assert.equal(new Set(held.map((kept) => kept.buffer)).size, held.length);
    for (const kept of held) memory.release(kept);
    assert.equal(held.map((kept) => kept.buffer).includes(memory.keep(piece).buffer), true);
    assert.equal(memory.blockCount, 48);
  });

  it("keeps what is in a reader's block where it is, until it is released", () => {
    const memory = new RecycledMemory();
    const block = memory.lend()!;
    const piece = block.memory.subarray(KIB, 65 * KIB);
    assert.equal(memory.keep(piece), piece);
    assert.equal(memory.isUnused(block), false);
    memory.takeBack(block);
    assert.notEqual(memory.lend()!.memory.buffer, piece.buffer);
    memory.release(piece.subarray(1));
    assert.notEqual(memory.lend()!.memory.buffer, piece.buffer);
    memory.release(piece.subarray(0, 1));
    assert.equal(memory.lend()!.memory.buffer, piece.buffer);
  });

  it("copies small pieces of a reader's block, and what is kept twice", () => {
    const memory = new RecycledMemory();
    const block = memory.lend()!;
    const small = block.memory.subarray(0, 2 * KIB);
    assert.notEqual(memory.keep(small).buffer, small.buffer);
    assert.equal(memory.isUnused(block), true);
    const kept = memory.keep(block.memory.subarray(0, 64 * KIB));
    memory.takeBack(block);
    assert.notEqual(memory.keep(kept).buffer, kept.buffer);
    assert.notEqual(memory.copy(kept).buffer, kept.buffer);
  });

  it("lends twelve blocks at most, and none of them to two", () => {
    const memory = new RecycledMemory();
    const lent = Array.from({ length: 12 }, () => memory.lend()!);
    assert.equal(new Set(lent).size, 12);
    assert.equal(memory.lend(), undefined);
    memory.takeBack(lent[3]!);
    assert.equal(memory.lend(1), undefined);
    assert.equal(memory.lend(), lent[3]);
    for (const block of lent)
      assert.notEqual(memory.copy(Buffer.alloc(KIB)).buffer, block.memory.buffer);
  });

  it("takes a release of anything else for nothing", () => {
    const memory = new RecycledMemory();
    const kept = memory.keep(Buffer.alloc(16 * KIB, "a"));
    memory.release(Buffer.alloc(16 * KIB));
    memory.release(Buffer.alloc(BLOCK_BYTES));
    memory.release(kept.subarray(0, 0));
    memory.release(new RecycledMemory().keep(Buffer.alloc(16 * KIB)));
    memory.keep(Buffer.alloc(16 * KIB, "b"));
    assert.deepEqual(kept, Buffer.alloc(16 * KIB, "a"));
  });

  it("never gives out memory that is still held", () => {
    const step = fc.oneof(
      fc.record({ keep: fc.integer({ min: 1, max: 100 * KIB }) }),
      // Which of those that are held, and where it is cut before both parts are released.
      fc.record({ release: fc.nat(), cut: fc.double({ min: 0, max: 1, noNaN: true }) }),
      // Forgotten, as where a connection is cut.
      fc.record({ forget: fc.nat() }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150 }), (steps) => {
        const memory = new RecycledMemory();
        const held: { kept: Buffer; mark: number }[] = [];
        steps.forEach((what, index) => {
          const mark = index % 251;
          if ("keep" in what) {
            held.push({ kept: memory.keep(Buffer.alloc(what.keep, mark)), mark });
          } else if (held.length > 0 && "release" in what) {
            const { kept } = held.splice(what.release % held.length, 1)[0]!;
            const cut = Math.floor(kept.length * what.cut);
            memory.release(kept.subarray(cut));
            memory.release(kept.subarray(0, cut));
          } else if (held.length > 0 && "forget" in what) {
            held.splice(what.forget % held.length, 1);
          }
          for (const { kept, mark: expected } of held) {
            assert.equal(kept[0], expected);
            assert.equal(kept.at(-1), expected);
          }
        });
        for (const { kept, mark } of held) assert.deepEqual(kept, Buffer.alloc(kept.length, mark));
      }),
    );
  });
});
