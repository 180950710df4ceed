import { goQuote } from "./flags/go-quote.ts";
import { readGoBool } from "./flags/go-number.ts";
import { InvalidValueError } from "./flags/invalid-value-error.ts";

/**
 * What an agent says it can reach: the `agentIdentifiers` of its metadata.
 *
 * The values are taken as they are. They are not checked to be addresses: manifests in use pass
 * unexpanded variables, which simply match nothing.
 */
export interface AgentIdentifiers {
  readonly ipv4: readonly string[];
  readonly ipv6: readonly string[];
  readonly host: readonly string[];
  readonly cidr: readonly string[];
  /** Failure zones that the agent is in; one in practice. Ours alone: upstream's servers ignore it. */
  readonly zone: readonly string[];
  readonly defaultRoute: boolean;
}

const KNOWN_KEYS: readonly string[] = ["ipv4", "ipv6", "host", "cidr", "zone", "default-route"];

/**
 * Read identifiers as a server does: keys it does not know are for a newer one, and are left out.
 *
 * @throws {InvalidValueError} with the message of Go's `url.ParseQuery`; a server answers the agent
 * `fail to parse url encoded string: ` and that.
 */
export function parseAgentIdentifiers(text: string): AgentIdentifiers {
  const values = parseQuery(text);
  const list = (key: string): readonly string[] => Object.freeze(values.get(key) ?? []);
  return Object.freeze({
    ipv4: list("ipv4"),
    ipv6: list("ipv6"),
    host: list("host"),
    cidr: list("cidr"),
    zone: list("zone"),
    // Only the first one counts, and anything that is not a Go boolean is no.
    defaultRoute: readGoBool(values.get("default-route")?.[0] ?? "") ?? false,
  });
}

/**
 * Check identifiers as an agent does before it sends them: a key nobody knows is a typing error.
 *
 * @throws {InvalidValueError} as {@link parseAgentIdentifiers}, or `unknown address type: <key>`.
 */
export function checkAgentIdentifiers(text: string): void {
  for (const key of parseQuery(text).keys()) {
    if (!KNOWN_KEYS.includes(key)) throw new InvalidValueError(`unknown address type: ${key}`);
  }
}

/** Go's `url.ParseQuery`: unlike the URL classes of Node it refuses `;` and broken escapes. */
function parseQuery(query: string): Map<string, string[]> {
  const pairs = query.split("&").filter((pair) => pair !== "");
  if (pairs.some((pair) => pair.includes(";"))) {
    throw new InvalidValueError("invalid semicolon separator in query");
  }
  const values = new Map<string, string[]>();
  for (const pair of pairs) {
    const equals = pair.indexOf("=");
    const key = unescapeQuery(equals < 0 ? pair : pair.slice(0, equals));
    const value = unescapeQuery(equals < 0 ? "" : pair.slice(equals + 1));
    values.set(key, [...(values.get(key) ?? []), value]);
  }
  return values;
}

function unescapeQuery(text: string): string {
  const broken = /%(?![0-9a-fA-F]{2}).{0,2}/su.exec(text);
  if (broken !== null) throw new InvalidValueError(`invalid URL escape ${goQuote(broken[0])}`);
  // Escapes are bytes, and only together need they be UTF-8.
  const bytes = Buffer.from(text.replaceAll("+", " "))
    .toString("latin1")
    .replaceAll(/%(..)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(bytes, "latin1").toString();
}
