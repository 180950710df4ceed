import { AGENT_LIMIT_TEXT } from "../dial/dial-broker.ts";
import type { DialFailure } from "../dial/frontend-end.ts";

/** What a DIAL_RSP says of a failure. All but the text of a limit are upstream's words. */
const TEXT = {
  noAgent: "No agent available",
  agentLost: "agent connection lost",
  timeout: "timed out waiting for backend dial",
} as const;

/** What a DIAL_RSP can tell. */
export type ToldDialFailure = Exclude<DialFailure, { readonly kind: "dropped" }>;

export function dialErrorText(failure: ToldDialFailure): string {
  return "error" in failure ? failure.error : TEXT[failure.kind];
}

/** The failure that another worker has told by {@link dialErrorText}. */
export function dialFailureOf(text: string): ToldDialFailure {
  for (const kind of ["noAgent", "agentLost", "timeout"] as const) {
    if (text === TEXT[kind]) return { kind };
  }
  return { kind: text.startsWith(AGENT_LIMIT_TEXT) ? "limit" : "refused", error: text };
}
