import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PLAIN, paintFor } from "../../src/demo/paint.ts";

describe("paintFor", () => {
  it("paints on a terminal", () => {
    const paint = paintFor({ env: { TERM: "xterm", NO_COLOR: "" }, stdoutIsTerminal: true });
    assert.equal(paint.good("ok"), "\u001b[32mok\u001b[39m");
    assert.equal(paint.bad("no"), "\u001b[31mno\u001b[39m");
    assert.equal(paint.faint("so"), "\u001b[2mso\u001b[22m");
  });

  it("paints nothing elsewhere, nor where it is not wanted", () => {
    assert.equal(paintFor({ env: {}, stdoutIsTerminal: false }), PLAIN);
    for (const env of [{ NO_COLOR: "1" }, { CI: "true" }, { TERM: "dumb" }]) {
      assert.equal(paintFor({ env, stdoutIsTerminal: true }), PLAIN);
    }
    assert.equal(PLAIN.good("ok"), "ok");
  });
});
