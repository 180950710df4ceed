import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { formatCsvRecord, parseCsvRecord } from "../../src/flags/csv-record.ts";
import { InvalidValueError } from "../../src/flags/invalid-value-error.ts";

describe("comma lists", () => {
  const read: readonly (readonly [text: string, fields: readonly string[]])[] = [
    ["", []],
    ["a", ["a"]],
    ["a,b", ["a", "b"]],
    ["a,", ["a", ""]],
    [",", ["", ""]],
    ["[]", ["[]"]],
    [" a, b ", [" a", " b "]],
    ['"a,b",c', ["a,b", "c"]],
    ['"say ""hi"""', ['say "hi"']],
    ['""', [""]],
    ["a,b\n", ["a", "b"]],
    ["a\r\nignored", ["a"]],
    ["\na", ["a"]],
    ['"two\nlines"', ["two\nlines"]],
    ['"a"\n', ["a"]],
  ];
  for (const [text, fields] of read) {
    it(`reads ${JSON.stringify(text)} as ${JSON.stringify(fields)}`, () => {
      assert.deepEqual(parseCsvRecord(text), fields);
    });
  }

  const refused: readonly (readonly [text: string, message: string])[] = [
    ['a"b', 'parse error on line 1, column 2: bare " in non-quoted field'],
    ['x,a"b', 'parse error on line 1, column 4: bare " in non-quoted field'],
    ['"a"b', 'parse error on line 1, column 3: extraneous or missing " in quoted-field'],
    ['"a', 'parse error on line 1, column 3: extraneous or missing " in quoted-field'],
    ['\u00e9"', 'parse error on line 1, column 3: bare " in non-quoted field'],
    ["\n", "EOF"],
  ];
  for (const [text, message] of refused) {
    it(`refuses ${JSON.stringify(text)}`, () => {
      assert.throws(() => parseCsvRecord(text), new InvalidValueError(message));
    });
  }

  it("reads back whatever it wrote", () => {
    const fields = fc.array(fc.string({ unit: fc.constantFrom("a", ",", '"', " ", "\n", "[") }));
    fc.assert(
      fc.property(fields, (written) => {
        // One empty field and no field at all are written alike.
        fc.pre(written.length !== 1 || written[0] !== "");
        assert.deepEqual(parseCsvRecord(formatCsvRecord(written)), written);
      }),
    );
  });
});
