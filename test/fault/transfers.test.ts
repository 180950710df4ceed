import { describe, it } from "node:test";
import { runRandomTransfers } from "../support/random-transfers.ts";

describe("a thousand random transfers", () => {
  for (const seed of [1, 2, 3, 4]) {
    it(`end complete or as failures, and leave nothing, with seed ${seed}`, async (t) => {
      await runRandomTransfers(t, seed, 250, 8);
    });
  }
});
