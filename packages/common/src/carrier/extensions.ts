import type { HeaderList } from "../hpack/header-list.ts";
import { headerValues } from "../http2/header-rules.ts";

/**
 * What our own ends can do beyond upstream's protocol (PROTOCOL.md, "Extensions").
 *
 * - `flow-control`: credit for each direction of each connection of a tunnel (CREDIT).
 * - `half-close`: the ends of a connection one by one, and resets (FINISH, RESET).
 * - `server-drain`: the server says that it is about to leave (DRAIN, towards the agent).
 * - `turn-away`: the server ends the TLS handshake of an agent that has a tunnel to it, if the agent
 *   says so in its first words (see {@link exceptServerAlpn}).
 */
export type Extension = "flow-control" | "half-close" | "server-drain" | "turn-away";

/** Everything that this version knows, on a tunnel. */
export const TUNNEL_EXTENSIONS: readonly Extension[] = [
  "flow-control",
  "half-close",
  "server-drain",
  "turn-away",
];

/** The same on a frontend's stream, which HTTP/2 paces. */
export const FRONTEND_EXTENSIONS: readonly Extension[] = ["half-close"];

/** Metadata key in which a client names its extensions, and a server those that both have. */
const EXTENSIONS_KEY = "reachback-extensions";

/** Metadata key of the protocol's revision in the server's answer. */
const REVISION_KEY = "reachback-revision";

/** Counts up when what the extensions mean changes. */
const REVISION = 1;

/** What the client adds to its request. */
export function offeredExtensions(known: readonly Extension[]): HeaderList {
  return [[EXTENSIONS_KEY, known.join(",")]];
}

/** The extensions that `metadata` names, of those that we know; in any order, once or often. */
export function namedExtensions(
  metadata: HeaderList,
  known: readonly Extension[],
): ReadonlySet<Extension> {
  const named = new Set(
    headerValues(metadata, EXTENSIONS_KEY)
      .flatMap((value) => value.split(","))
      .map((name) => name.trim()),
  );
  return new Set(known.filter((extension) => named.has(extension)));
}

/** What the server adds to its answer; nothing for a client that has not asked. */
export function agreedExtensions(request: HeaderList, agreed: ReadonlySet<Extension>): HeaderList {
  if (headerValues(request, EXTENSIONS_KEY).length === 0) return [];
  return [
    [REVISION_KEY, String(REVISION)],
    [EXTENSIONS_KEY, [...agreed].join(",")],
  ];
}
