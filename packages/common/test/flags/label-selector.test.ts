import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseLabelSelector } from "../../src/flags/label-selector.ts";
import type { Labels } from "../../src/flags/label-selector.ts";

const NAME_RULE =
  "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

describe("label selectors", () => {
  const matching: readonly (readonly [selector: string, matched: Labels, missed?: Labels])[] = [
    ["", {}],
    ["  ", { a: "1" }],
    ["a=b", { a: "b" }, { a: "c" }],
    ["a=b", { a: "b", x: "y" }, {}],
    ["a==b", { a: "b" }, { a: "" }],
    ["a=", { a: "" }, { a: "b" }],
    ["a!=b", { a: "c" }, { a: "b" }],
    ["a!=b", {}],
    ["a in (x,y)", { a: "y" }, { a: "z" }],
    ["a in (x,,y)", { a: "" }, { a: "z" }],
    ["a in (,)", { a: "" }, { a: "x" }],
    ["a in ()", { a: "" }, {}],
    ["a notin (x, y)", { a: "z" }, { a: "x" }],
    ["a notin (x)", {}],
    ["a", { a: "" }, { b: "" }],
    ["!a", { b: "" }, { a: "" }],
    ["a>5", { a: "6" }, { a: "5" }],
    ["a>5", { a: "10" }, { a: "ten" }],
    ["a<5", { a: "-1" }, {}],
    ["a=b,c in (d),!e", { a: "b", c: "d" }, { a: "b", c: "d", e: "" }],
    ["in in (in,notin)", { in: "notin" }, { in: "x" }],
    ["example.com/name=x", { "example.com/name": "x" }, { name: "x" }],
    ["toString", { toString: "x" }, {}],
  ];
  for (const [selector, matched, missed] of matching) {
    it(`${JSON.stringify(selector)} matches ${JSON.stringify(matched)}`, () => {
      assert.equal(parseLabelSelector(selector).matches(matched), true);
    });
    if (missed === undefined) continue;
    it(`${JSON.stringify(selector)} does not match ${JSON.stringify(missed)}`, () => {
      assert.equal(parseLabelSelector(selector).matches(missed), false);
    });
  }

  it("is written sorted by key, values sorted and without repeats", () => {
    const selector = parseLabelSelector("z,!y,x=1,w in (b,a,b),v notin (c),u!=d,t==e,s>1,r<2");
    assert.equal(String(selector), "r<2,s>1,t==e,u!=d,v notin (c),w in (a,b),x=1,!y,z");
    assert.deepEqual(parseLabelSelector(String(selector)), selector);
  });

  it("has one requirement per condition", () => {
    assert.deepEqual(parseLabelSelector("b in (y,x),a").requirements, [
      { key: "a", operator: "exists", values: [] },
      { key: "b", operator: "in", values: ["x", "y"] },
    ]);
  });

  const requirement = "unable to parse requirement:";
  const refused: readonly (readonly [selector: string, message: string | RegExp])[] = [
    ["a in", `${requirement} found '' expected: '('`],
    ["a in x", `${requirement} found 'x' expected: '('`],
    ["a in (", `${requirement} found '', expected: ',', ')' or identifier`],
    ["a in (=", `${requirement} found '=', expected: ',', ')' or identifier`],
    ["a in (x", `${requirement} found '', expected: ',' or ')'`],
    ["a in (x y)", `${requirement} found 'y', expected: ',' or ')'`],
    ["a in (x,", `${requirement} found '', expected: ',', or identifier`],
    ["a x", `${requirement} found 'x', expected: in, notin, =, ==, !=, gt, lt`],
    ["a gt 5", `${requirement} found 'gt', expected: in, notin, =, ==, !=, gt, lt`],
    ["a=(", `${requirement} found '(', expected: identifier`],
    ["!", `${requirement} found '', expected: identifier`],
    ["!!a", `${requirement} found '!', expected: identifier`],
    ["=b", "found '=', expected: !, identifier, or 'end of string'"],
    [",a", "found ',', expected: !, identifier, or 'end of string'"],
    ["a,", "found '', expected: identifier after ','"],
    ["a=b c", "found 'c', expected: ',' or 'end of string'"],
    ["!a=b", "found '=', expected: ',' or 'end of string'"],
    ["-a", `${requirement} <nil>: Invalid value: "-a": ${NAME_RULE}`],
    ["x/y/z", /^unable to parse requirement: <nil>: Invalid value: "x\/y\/z": a valid label key /],
    ["/a", `${requirement} <nil>: Invalid value: "/a": prefix part must be non-empty`],
    ["a/", /"a\/": name part must be non-empty; name part must consist of/],
    ["A_B/c", /"A_B\/c": prefix part a lowercase RFC 1123 subdomain must consist of/],
    ["k".repeat(64), /name part must be no more than 63 bytes$/],
    ["a=-b", `${requirement} values[0][a]: Invalid value: "-b": ${VALUE_RULE}`],
    [
      "a>x",
      `${requirement} values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer`,
    ],
    ["a in (-x,-y)", /^unable to parse requirement: \[values\[0\]\[a\]: .*, values\[1\]\[a\]: /],
  ];
  for (const [selector, message] of refused) {
    it(`refuses ${JSON.stringify(selector)} with Kubernetes' words`, () => {
      const expected = { name: "InvalidValueError", message };
      assert.throws(() => parseLabelSelector(selector), expected);
    });
  }
});
