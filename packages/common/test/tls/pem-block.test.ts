import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { pemBlocksFromText, pemFromBytes } from "../../src/tls/pem-block.ts";

const A = pemFromBytes("A", Buffer.from("first"));
const B = pemFromBytes("B C", Buffer.from("second"));

describe("pemBlocksFromText", () => {
  it("finds every block, with its line, among text", () => {
    const text = `subject: someone\n\n${A}-- between --\n${B}the end`;
    assert.deepEqual(pemBlocksFromText(text), [
      { whole: true, type: "A", line: 3, hasHeaders: false, bytes: Buffer.from("first") },
      { whole: true, type: "B C", line: 7, hasHeaders: false, bytes: Buffer.from("second") },
    ]);
  });

  it("finds nothing in text without blocks", () => {
    assert.deepEqual(pemBlocksFromText(""), []);
    assert.deepEqual(pemBlocksFromText("garbage\n ----- BEGIN x\n"), []);
  });

  it("takes Windows line ends, blanks at line ends, blank lines and a byte order mark", () => {
    const text = `\ufeff${A.replaceAll("\n", " \t\r\n")}\r\n`.replace("A-----", "A-----\r\n\r\n");
    assert.deepEqual(
      pemBlocksFromText(text).map((block) => block.whole && String(block.bytes)),
      ["first"],
    );
  });

  it("tells headers from base64", () => {
    const [block] = pemBlocksFromText(A.replace("A-----\n", "A-----\nProc-Type: 4,X\nN: v\n\n"));
    assert.ok(block?.whole);
    assert.equal(block.hasHeaders, true);
    assert.equal(String(block.bytes), "first");
  });

  it("takes an empty block", () => {
    const [block] = pemBlocksFromText("-----BEGIN A-----\n-----END A-----");
    assert.ok(block?.whole);
    assert.equal(block.bytes.length, 0);
  });

  const broken: readonly (readonly [name: string, text: string, problem: string])[] = [
    ["without an END at the end of the file", "-----BEGIN A-----\nAAAA\n", "has no END line"],
    ["that another one interrupts", `-----BEGIN A-----\nAAAA\n${B}`, "has no END line"],
    ["that ends as another type", "-----BEGIN A-----\n-----END B-----", 'ends as "B"'],
    ["with a character too few", A.replace("Zmly", "Zml"), "is not valid base64"],
    ["with a foreign character", A.replace("Zmly", "Zm!y"), "is not valid base64"],
    ["with text after padding", A.replace("c3Q=", "c3Q=AAAA"), "is not valid base64"],
  ];
  for (const [name, text, problem] of broken) {
    it(`reports a block ${name}`, () => {
      const [block] = pemBlocksFromText(`text\n${text}`);
      assert.deepEqual(block, { whole: false, type: "A", line: 2, hasHeaders: false, problem });
    });
  }

  it("goes on after a broken block", () => {
    const blocks = pemBlocksFromText(`-----BEGIN A-----\nAAAA\n${B}`);
    assert.deepEqual(
      blocks.map(({ type, whole }) => [type, whole]),
      [
        ["A", false],
        ["B C", true],
      ],
    );
  });

  it("reads back whatever was written", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 4 }), (bodies) => {
        const text = bodies.map((body) => pemFromBytes("X", Buffer.from(body))).join("\n");
        assert.deepEqual(
          pemBlocksFromText(text).map((block) => block.whole && new Uint8Array(block.bytes)),
          bodies,
        );
      }),
    );
  });
});
