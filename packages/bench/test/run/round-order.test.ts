import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { roundOrder } from "../../src/run/round-order.ts";

describe("the order of a round", () => {
  for (const count of [1, 2, 3, 4, 5, 6]) {
    it(`has each of ${count} once, and each as often after any other`, () => {
      const followed = new Map<string, number>();
      const firsts = new Map<number, number>();
      for (let round = 0; round < 2 * count; round++) {
        const order = roundOrder(count, round);
        assert.deepEqual(
          [...order].sort((a, b) => a - b),
          Array.from({ length: count }, (_, index) => index),
        );
        firsts.set(order[0]!, (firsts.get(order[0]!) ?? 0) + 1);
        for (let position = 1; position < count; position++) {
          const pair = `${order[position - 1]} ${order[position]}`;
          followed.set(pair, (followed.get(pair) ?? 0) + 1);
        }
      }
      assert.deepEqual(new Set(firsts.values()), new Set([2]));
      assert.equal(followed.size, count * (count - 1));
      assert.ok([...followed.values()].every((times) => times === 2));
    });
  }
});
