import { describe } from "node:test";
import { testIntegrity } from "../support/integrity.ts";

// Two hundred each way: npm run test:fault.
describe("10 MiB and then a close at once", () => {
  testIntegrity(10);
});
