import { it } from "node:test";
import { runRandomTransfers } from "../support/random-transfers.ts";

it("a hundred random transfers end complete or as failures, and leave nothing", async (t) => {
  await runRandomTransfers(t, 100, 100, 8);
});
