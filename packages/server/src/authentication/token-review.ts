import { listOf, recordOf, textOf } from "@reachback/common";
import type { Verdict } from "./verdict.ts";
import { invalidToken, rejected } from "./verdict.ts";

/** Whom agents must be. */
export interface ExpectedAgent {
  readonly namespace: string;
  readonly serviceAccount: string;
  /** What their tokens must be made for. */
  readonly audience: string;
}

export const TOKEN_REVIEW_PATH = "/apis/authentication.k8s.io/v1/tokenreviews";

/** The question to the apiserver: whose token is this, and is it for us? */
export function tokenReview(token: string, { audience }: ExpectedAgent): unknown {
  return {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenReview",
    spec: { token, audiences: [audience] },
  };
}

/** What the apiserver's answer means for an agent; the words are upstream's but for audiences. */
export function verdictFrom(review: unknown, expected: ExpectedAgent): Verdict {
  const status = recordOf(recordOf(review)["status"]);
  const error = textOf(status["error"]);
  if (error !== "") return failed(error);
  if (status["authenticated"] !== true) return failed("service account jwt not valid");

  // An apiserver that leaves them out has ignored ours: the token is then for the apiserver itself,
  // or for anybody else (TokenReviewStatus, audiences).
  const audiences = listOf(status["audiences"]).map(textOf);
  if (!audiences.includes(expected.audience)) {
    const found = audiences.join(" ");
    return failed(`token is for audiences [${found}]. Expected "${expected.audience}"`);
  }

  const username = textOf(recordOf(status["user"])["username"]);
  const parts = username.split(":");
  const [system, kind, namespace, serviceAccount] = parts;
  if (parts.length !== 4) return failed("unexpected username format");
  if (system !== "system" || kind !== "serviceaccount") {
    return failed("username returned is not a service account");
  }
  if (namespace !== expected.namespace) {
    return failed(
      `incoming request from "${namespace ?? ""}" namespace. Expected "${expected.namespace}"`,
    );
  }
  if (serviceAccount !== expected.serviceAccount) {
    return failed(
      `incoming request from "${serviceAccount ?? ""}" service account. Expected "${expected.serviceAccount}"`,
    );
  }
  return { accepted: true, username };
}

function failed(reason: string): Verdict {
  return rejected(invalidToken(`lookup failed: ${reason}`));
}

/**
 * When a token expires, in milliseconds since 1970; infinite if it does not say. It is read, not
 * verified: only what a review has accepted is remembered until then.
 */
export function tokenExpiryMs(token: string): number {
  try {
    const [, payload = ""] = token.split(".");
    const claims = recordOf(JSON.parse(Buffer.from(payload, "base64url").toString("utf8")));
    return typeof claims["exp"] === "number" ? claims["exp"] * 1000 : Infinity;
  } catch {
    return Infinity;
  }
}
