import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { byteSizeType } from "../../src/flags/byte-size.ts";

describe("byteSizeType", () => {
  for (const [text, bytes] of [
    ["0", 0],
    ["0Gi", 0],
    ["65536", 65_536],
    ["64Ki", 65_536],
    ["16Mi", 16_777_216],
    ["1Gi", 1_073_741_824],
    ["007", 7],
    ["9007199254740991", Number.MAX_SAFE_INTEGER],
  ] as const) {
    it(`reads ${text}`, () => {
      assert.equal(byteSizeType.parse(text), bytes);
    });
  }

  for (const text of [
    "",
    "-1",
    "+1",
    "1.5Mi",
    "1 Mi",
    "16M",
    "16mi",
    "16MiB",
    "Mi",
    "1e6",
    "0x10",
  ]) {
    it(`refuses "${text}" and says how to write one`, () => {
      assert.throws(() => byteSizeType.parse(text), {
        message: `"${text}" is not a number of bytes: write 65536, 64Ki, 16Mi or 1Gi`,
      });
    });
  }

  it("refuses what no number holds exactly", () => {
    assert.throws(() => byteSizeType.parse("9007199254740992"), /is not a number of bytes/);
    assert.throws(() => byteSizeType.parse("99999999Gi"), /is not a number of bytes/);
  });

  it("writes the largest unit that fits", () => {
    const written = [0, 1, 1023, 1024, 65_536, 1_572_864, 2 ** 30].map((bytes) =>
      byteSizeType.format(bytes),
    );
    assert.deepEqual(written, ["0", "1", "1023", "1Ki", "64Ki", "1536Ki", "1Gi"]);
  });

  it("reads what it writes", () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (bytes) => {
        assert.equal(byteSizeType.parse(byteSizeType.format(bytes)), bytes);
      }),
    );
  });
});
