import type { GrpcStatus } from "@reachback/common";
import { GrpcCode } from "@reachback/common";

/** Whether an agent may come in. */
export type Verdict =
  | { readonly accepted: true; readonly username: string }
  | { readonly accepted: false; readonly status: GrpcStatus };

/** What a review has said of a token. */
export interface ReviewedToken {
  readonly hash: string;
  readonly verdict: Verdict;
  /** End of the token's life, in milliseconds since 1970; infinite where it does not say. */
  readonly expiresAtMs: number;
}

/** The apiserver was asked and says no; or the call carries no token. Upstream's code. */
export function rejected(message: string): Verdict {
  return { accepted: false, status: { code: GrpcCode.UNKNOWN, message } };
}

/** Nobody can say now; the same agent may come in later. */
export function undecided(message: string): Verdict {
  return { accepted: false, status: { code: GrpcCode.UNAVAILABLE, message } };
}

/** In upstream's words: a token that could not be validated, and why. */
export function invalidToken(reason: string): string {
  return `Failed to validate authentication token, err:${reason}`;
}
