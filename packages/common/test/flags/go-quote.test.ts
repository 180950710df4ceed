import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { goQuote, goQuoteChar } from "../../src/flags/go-quote.ts";

describe("quoting", () => {
  const cases: readonly (readonly [text: string, quoted: string])[] = [
    ["", '""'],
    ["plain text", '"plain text"'],
    ['say "hi"', String.raw`"say \"hi\""`],
    ["it's", `"it's"`],
    ["back\\slash", String.raw`"back\\slash"`],
    ["\n\t\r\v\f\b\x07", String.raw`"\n\t\r\v\f\b\a"`],
    ["\x00\x1b\x7f", String.raw`"\x00\x1b\x7f"`],
    ["\u00e9\u20ac\u{1f600}", '"\u00e9\u20ac\u{1f600}"'],
    ["\u00a0\u200b", String.raw`"\u00a0\u200b"`],
    ["\u{e0001}", String.raw`"\U000e0001"`],
  ];
  for (const [text, quoted] of cases) {
    it(`writes ${JSON.stringify(text)} as ${quoted}`, () => {
      assert.equal(goQuote(text), quoted);
    });
  }

  it("puts one character in single quotes", () => {
    assert.equal(goQuoteChar("z"), "'z'");
    assert.equal(goQuoteChar("'"), String.raw`'\''`);
    assert.equal(goQuoteChar('"'), `'"'`);
  });
});
