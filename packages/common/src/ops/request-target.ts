import { posix } from "node:path";

/** What a request line asks for. */
export interface RequestTarget {
  /** Of an absolute target, where it takes the place of the Host header. */
  readonly host: string | undefined;

  /** Decoded, not cleaned. */
  readonly path: string;
  readonly rawQuery: string;
}

/** Take apart a request target: a path with a query, or an absolute URL. `undefined` if it is neither. */
export function parseTarget(target: string): RequestTarget | undefined {
  const absolute = /^[a-z][a-z0-9+.-]*:\/\/(?<host>[^/?]*)(?<rest>.*)$/i.exec(target)?.groups;
  const rest = absolute?.["rest"] ?? target;
  const queryAt = rest.indexOf("?");
  try {
    return {
      host: absolute?.["host"],
      path: decodeURIComponent(queryAt < 0 ? rest : rest.slice(0, queryAt)),
      rawQuery: queryAt < 0 ? "" : rest.slice(queryAt + 1),
    };
  } catch {
    // A `%` without two hexadecimal digits, or digits that are no UTF-8.
    return undefined;
  }
}

/** The path without empty, `.` and `..` elements, always from the root; a `/` at its end stays. */
export function cleanPath(path: string): string {
  return posix.normalize(path.startsWith("/") ? path : `/${path}`);
}

// The bytes that Go's HTTP server lets through; whether they make a host is another question.
const HOST_BYTES = /^[0-9A-Za-z!$%&'()*+,\-.:;=[\]_~]*$/;

/** Whether `host` may stand in a Host header. It ends up in redirects, so anything else must not. */
export function isHostHeader(host: string): boolean {
  return HOST_BYTES.test(host);
}
