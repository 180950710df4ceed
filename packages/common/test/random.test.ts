import assert from "node:assert/strict";
import { it } from "node:test";
import { int64FromBigInt } from "../src/packet/int64.ts";
import { systemRandom } from "../src/random.ts";
import { SeededRandom } from "../src/testing/seeded-random.ts";

const SOURCES = { "the system": systemRandom, "a seed": new SeededRandom(7) };

for (const [source, random] of Object.entries(SOURCES)) {
  it(`63 random bits from ${source} compare with what comes back from the wire`, () => {
    let smallCount = 0;
    for (let i = 0; i < 50_000; i++) {
      const drawn = random.int63();
      const fromWire = int64FromBigInt(BigInt(drawn));
      if (drawn !== fromWire) assert.fail(`${typeof drawn} ${drawn} against ${typeof fromWire}`);
      assert.ok(drawn >= 0 && drawn < 2n ** 63n);
      if (typeof drawn === "number") smallCount++;
    }
    // One in 1024: some 49, and never none.
    assert.ok(smallCount > 10 && smallCount < 120, String(smallCount));
  });
}
