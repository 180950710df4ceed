import type { HeaderField, HeaderList } from "./header-list.ts";

/** RFC 7541 appendix A. The field with index `i` on the wire is at `i - 1`. */
export const STATIC_TABLE: HeaderList = [
  [":authority", ""],
  [":method", "GET"],
  [":method", "POST"],
  [":path", "/"],
  [":path", "/index.html"],
  [":scheme", "http"],
  [":scheme", "https"],
  [":status", "200"],
  [":status", "204"],
  [":status", "206"],
  [":status", "304"],
  [":status", "400"],
  [":status", "404"],
  [":status", "500"],
  ["accept-charset", ""],
  ["accept-encoding", "gzip, deflate"],
  ["accept-language", ""],
  ["accept-ranges", ""],
  ["accept", ""],
  ["access-control-allow-origin", ""],
  ["age", ""],
  ["allow", ""],
  ["authorization", ""],
  ["cache-control", ""],
  ["content-disposition", ""],
  ["content-encoding", ""],
  ["content-language", ""],
  ["content-length", ""],
  ["content-location", ""],
  ["content-range", ""],
  ["content-type", ""],
  ["cookie", ""],
  ["date", ""],
  ["etag", ""],
  ["expect", ""],
  ["expires", ""],
  ["from", ""],
  ["host", ""],
  ["if-match", ""],
  ["if-modified-since", ""],
  ["if-none-match", ""],
  ["if-range", ""],
  ["if-unmodified-since", ""],
  ["last-modified", ""],
  ["link", ""],
  ["location", ""],
  ["max-forwards", ""],
  ["proxy-authenticate", ""],
  ["proxy-authorization", ""],
  ["range", ""],
  ["referer", ""],
  ["refresh", ""],
  ["retry-after", ""],
  ["server", ""],
  ["set-cookie", ""],
  ["strict-transport-security", ""],
  ["transfer-encoding", ""],
  ["user-agent", ""],
  ["vary", ""],
  ["via", ""],
  ["www-authenticate", ""],
];

/** Where a name, and each of its values, stands in the static table. */
export interface StaticName {
  /** Wire index of the first field with this name. */
  readonly index: number;
  readonly indexByValue: ReadonlyMap<string, number>;
}

export const STATIC_NAMES: ReadonlyMap<string, StaticName> = indexNames(STATIC_TABLE);

function indexNames(table: readonly HeaderField[]): Map<string, StaticName> {
  const names = new Map<string, { index: number; indexByValue: Map<string, number> }>();
  for (const [position, [name, value]] of table.entries()) {
    const index = position + 1;
    const known = names.get(name);
    if (known === undefined) names.set(name, { index, indexByValue: new Map([[value, index]]) });
    else known.indexByValue.set(value, index);
  }
  return names;
}
