import { describe } from "node:test";
import { testIntegrity } from "../support/integrity.ts";

describe("10 MiB and then a close at once, two hundred times each way", () => {
  testIntegrity(50);
});
