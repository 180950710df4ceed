import type { HeaderList } from "../hpack/header-list.ts";

/** What a header block is, which decides the pseudo-header fields it must have. */
export type HeaderBlockKind = "request" | "response" | "trailers";

const REQUIRED_PSEUDO: Readonly<Record<HeaderBlockKind, readonly string[]>> = {
  request: [":method", ":scheme", ":path"],
  response: [":status"],
  trailers: [],
};

const ALLOWED_PSEUDO: Readonly<Record<HeaderBlockKind, ReadonlySet<string>>> = {
  request: new Set([":method", ":scheme", ":path", ":authority"]),
  response: new Set([":status"]),
  trailers: new Set(),
};

/** Fields that belong to HTTP/1 connections (RFC 9113 section 8.2.2). */
const CONNECTION_SPECIFIC: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);

/** Lower-case visible ASCII, no colon (RFC 9113 section 8.2.1). */
const FIELD_NAME = /^[!-9;-@[-~]+$/;
const FORBIDDEN_IN_VALUE = /[\0\r\n]/;

/** Why a header block is malformed (RFC 9113 sections 8.2 and 8.3), or `undefined` if it is not. */
export function headerBlockProblem(headers: HeaderList, kind: HeaderBlockKind): string | undefined {
  const seen = new Set<string>();
  let regular = false;
  for (const [name, value] of headers) {
    if (FORBIDDEN_IN_VALUE.test(value)) return `control character in the value of ${name}`;
    if (name.startsWith(":")) {
      if (regular) return `${name} after a regular field`;
      if (!ALLOWED_PSEUDO[kind].has(name)) return `${name} in a ${kind}`;
      if (seen.has(name)) return `${name} twice`;
      seen.add(name);
    } else {
      regular = true;
      if (!FIELD_NAME.test(name)) return "bad character in a field name";
      if (CONNECTION_SPECIFIC.has(name)) return `${name} in HTTP/2`;
    }
  }
  const missing = REQUIRED_PSEUDO[kind].find((name) => !seen.has(name));
  return missing === undefined ? undefined : `no ${missing}`;
}

/** All values of a field, in order. */
export function headerValues(headers: HeaderList, name: string): string[] {
  return headers.filter((field) => field[0] === name).map((field) => field[1]);
}

/** The first value of a field. */
export function headerValue(headers: HeaderList, name: string): string | undefined {
  return headers.find((field) => field[0] === name)?.[1];
}
