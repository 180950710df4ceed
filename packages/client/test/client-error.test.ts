import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ClientError, dialErrorFrom } from "../src/client-error.ts";

describe("the error of a dial", () => {
  const cases: readonly (readonly [text: string, code: string])[] = [
    ["No agent available", "ERR_NO_AGENT"],
    ["currently no tunnels available: No agent available", "ERR_NO_AGENT"],
    ["dial tcp 127.0.0.1:1: connect: connection refused", "ERR_DIAL_FAILED"],
    ["dial tcp: lookup nope.example on 10.0.0.2:53: no such host", "ERR_DIAL_FAILED"],
    ["agent connection lost", "ERR_DIAL_FAILED"],
    ["Backend context error: context canceled", "ERR_DIAL_FAILED"],
    ["dial tcp 198.18.0.254:1234: i/o timeout", "ERR_DIAL_TIMEOUT"],
    ["context deadline exceeded", "ERR_DIAL_TIMEOUT"],
    ["timed out waiting for backend dial", "ERR_DIAL_TIMEOUT"],
    ["Backend dial timeout: timed out waiting for backend dial", "ERR_DIAL_TIMEOUT"],
    ["net/http: TLS handshake timeout", "ERR_DIAL_TIMEOUT"],
  ];
  for (const [text, code] of cases) {
    it(`is ${code} for "${text}"`, () => {
      const error = dialErrorFrom(text);
      assert.equal(error.code, code);
      assert.equal(error.message, text);
      assert.equal(error.name, "ClientError");
    });
  }

  it("has a cause only if there is one", () => {
    assert.equal("cause" in new ClientError("ERR_NO_AGENT", "x"), false);
    const cause = new Error("why");
    assert.equal(new ClientError("ERR_NO_AGENT", "x", cause).cause, cause);
  });
});
