import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GrpcCode } from "@reachback/common";
import { ManualClock } from "@reachback/common/testing";
import { BearerTokenError, bearerTokenFrom } from "../../src/authentication/bearer-token.ts";
import { tokenExpiryMs, verdictFrom } from "../../src/authentication/token-review.ts";
import { VerdictCache } from "../../src/authentication/verdict-cache.ts";
import type { Verdict } from "../../src/authentication/verdict.ts";

const EXPECTED = { namespace: "ns", serviceAccount: "sa", audience: "us" };
const USERNAME = "system:serviceaccount:ns:sa";

function verdictOf(status: object): Verdict {
  return verdictFrom({ status: { audiences: ["us"], ...status } }, EXPECTED);
}

describe("the token of a call", () => {
  it("is what follows Bearer in the one authorization there is", () => {
    assert.equal(bearerTokenFrom([["authorization", "Bearer abc"]]), "abc");
  });

  const refused: readonly (readonly [string, readonly string[]])[] = [
    ["Authentication context was not found in metadata", []],
    ["too many (2) tokens are received", ["Bearer a", "Bearer b"]],
    ['received token does not have "Bearer " prefix', ["abc"]],
    ["the token is longer than 8192 characters", [`Bearer ${"x".repeat(8_193)}`]],
  ];
  for (const [message, values] of refused) {
    it(`is none: ${message}`, () => {
      const metadata = values.map((value) => ["authorization", value] as const);
      assert.throws(
        () => bearerTokenFrom(metadata),
        (error) => {
          return error instanceof BearerTokenError && error.message === message;
        },
      );
    });
  }
});

describe("a review", () => {
  it("admits the expected service account", () => {
    assert.deepEqual(verdictOf({ authenticated: true, user: { username: USERNAME } }), {
      accepted: true,
      username: USERNAME,
    });
  });

  const user = (username: string) => ({ authenticated: true, user: { username } });
  const refused: readonly (readonly [string, object])[] = [
    ["the reviewer's reason", { error: "the reviewer's reason" }],
    ["service account jwt not valid", {}],
    ["service account jwt not valid", { authenticated: "true" }],
    ["unexpected username format", user("root")],
    ["unexpected username format", { authenticated: true }],
    ["username returned is not a service account", user("system:node:a:b")],
    [
      'incoming request from "other" namespace. Expected "ns"',
      user("system:serviceaccount:other:sa"),
    ],
    [
      'incoming request from "other" service account. Expected "sa"',
      user("system:serviceaccount:ns:other"),
    ],
    ['token is for audiences [x y]. Expected "us"', { ...user(USERNAME), audiences: ["x", "y"] }],
    ['token is for audiences []. Expected "us"', { ...user(USERNAME), audiences: undefined }],
  ];
  for (const [reason, status] of refused) {
    it(`refuses with "${reason}" what says ${JSON.stringify(status)}`, () => {
      const message = `Failed to validate authentication token, err:lookup failed: ${reason}`;
      assert.deepEqual(verdictOf(status), {
        accepted: false,
        status: { code: GrpcCode.UNKNOWN, message },
      });
    });
  }

  it("that is no review at all refuses", () => {
    for (const answer of [undefined, null, "x", [], {}]) {
      assert.equal(verdictFrom(answer, EXPECTED).accepted, false);
    }
  });
});

describe("a token's expiry", () => {
  const jwt = (claims: unknown) =>
    `h.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.s`;

  it("is its exp claim, in milliseconds", () => {
    assert.equal(tokenExpiryMs(jwt({ exp: 1_700_000_000 })), 1_700_000_000_000);
  });

  it("is unknown for what has none, or is no JWT", () => {
    for (const token of [jwt({}), jwt({ exp: "soon" }), jwt(null), "opaque", "a.b.c", ""]) {
      assert.equal(tokenExpiryMs(token), Infinity, token);
    }
  });
});

describe("remembered verdicts", () => {
  const accepted: Verdict = { accepted: true, username: USERNAME };
  const refused: Verdict = { accepted: false, status: { code: 2, message: "no" } };

  it("last until the token expires, at most for the time given", () => {
    const clock = new ManualClock();
    const cache = new VerdictCache(300_000, clock);
    cache.add({ hash: "long", verdict: accepted, expiresAtMs: clock.wallTimeMs() + 3_600_000 });
    cache.add({ hash: "short", verdict: accepted, expiresAtMs: clock.wallTimeMs() + 60_000 });
    cache.add({ hash: "over", verdict: accepted, expiresAtMs: clock.wallTimeMs() - 1 });
    assert.equal(cache.get("over"), undefined);
    clock.advance(59_999);
    assert.equal(cache.get("short"), accepted);
    clock.advance(1);
    assert.equal(cache.get("short"), undefined);
    assert.equal(cache.get("long"), accepted);
    clock.advance(240_000);
    assert.equal(cache.get("long"), undefined);
  });

  it("are short if they are refusals, and none if the time is 0", () => {
    const clock = new ManualClock();
    const cache = new VerdictCache(300_000, clock);
    cache.add({ hash: "a", verdict: refused, expiresAtMs: Infinity });
    assert.equal(cache.get("a"), refused);
    clock.advance(10_000);
    assert.equal(cache.get("a"), undefined);
    const none = new VerdictCache(0, clock);
    none.add({ hash: "a", verdict: accepted, expiresAtMs: Infinity });
    none.add({ hash: "b", verdict: refused, expiresAtMs: Infinity });
    assert.equal(none.get("a") ?? none.get("b"), undefined);
  });

  it("are bounded: the oldest goes first", () => {
    const cache = new VerdictCache(300_000, new ManualClock());
    for (let index = 0; index <= 20_000; index++) {
      cache.add({ hash: String(index), verdict: accepted, expiresAtMs: Infinity });
    }
    assert.equal(cache.get("0"), undefined);
    assert.equal(cache.get("1"), accepted);
  });
});
