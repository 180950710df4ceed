/**
 * What the encoder does with a field it has not sent before on this connection.
 *
 * - `index`: remembered by both ends, and one or two bytes from then on.
 * - `literal`: sent as text every time. Values that change would only push useful entries out.
 * - `neverIndexed`: as `literal`, and marked so that no intermediary may index it either
 *   (RFC 7541 section 7.1.3): a secret in a table can be guessed through the size of later blocks.
 */
export type IndexingPolicy = "index" | "literal" | "neverIndexed";

/** Names whose few values return in one request or response after the other. */
const REPEATING_NAMES = [
  ":authority",
  ":method",
  ":path",
  ":scheme",
  ":status",
  "accept",
  "accept-encoding",
  "cache-control",
  "content-encoding",
  "content-type",
  "grpc-accept-encoding",
  "grpc-encoding",
  "grpc-status",
  "server",
  "te",
  "user-agent",
  "vary",
];

const SECRET_NAMES = ["authorization", "cookie", "proxy-authorization", "set-cookie"];

/** What the names of other people's secrets have in common. */
const LOOKS_SECRET =
  /auth|cookie|credential|csrf|key|passw|private|secret|session|signature|ticket|token|xsrf/;

const POLICIES: ReadonlyMap<string, IndexingPolicy> = new Map([
  ...REPEATING_NAMES.map((name) => [name, "index"] as const),
  ...SECRET_NAMES.map((name) => [name, "neverIndexed"] as const),
]);

/** How to send a field with this name, which is in lower case as HTTP/2 requires. */
export function indexingPolicyOf(name: string): IndexingPolicy {
  return POLICIES.get(name) ?? (LOOKS_SECRET.test(name) ? "neverIndexed" : "literal");
}
