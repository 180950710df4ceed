import { goQuote, headerValues } from "@reachback/common";
import type { HeaderList } from "@reachback/common";

/** What a server says about itself in the initial metadata of `Connect`. */
export interface ServerIdentity {
  readonly serverId: string;
  /** How many servers there are: 0 if the server does not know, negative if never enough. */
  readonly serverCount: number;
}

/** Go's int. */
const MAX_INT = 2n ** 63n - 1n;

/** @throws an error with upstream's text if the metadata does not name exactly one id and count. */
export function serverIdentityFrom(metadata: HeaderList): ServerIdentity {
  const ids = headerValues(metadata, "serverid");
  const [serverId] = ids;
  if (serverId === undefined || ids.length > 1) {
    throw new Error(`expected one server ID in the context, got [${ids.join(" ")}]`);
  }
  const counts = headerValues(metadata, "servercount");
  const [count] = counts;
  if (count === undefined || counts.length > 1) {
    throw new Error(`expected one server count, got ${counts.length}`);
  }
  if (!/^[+-]?\d+$/.test(count)) {
    throw new Error(`strconv.Atoi: parsing ${goQuote(count)}: invalid syntax`);
  }
  const exact = BigInt(count.replace("+", ""));
  if (exact > MAX_INT || exact < -MAX_INT - 1n) {
    throw new Error(`strconv.Atoi: parsing ${goQuote(count)}: value out of range`);
  }
  return { serverId, serverCount: Number(count) };
}
