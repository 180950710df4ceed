import { isIP } from "node:net";
import type { LookupFunction } from "node:net";
import type { Random } from "@reachback/common";
import type { HostLookup } from "./host-lookup.ts";

/**
 * A {@link HostLookup} as sockets take it. Which address of several comes first is left to chance:
 * behind a name there may be servers, and not every name server turns its answers round.
 */
export function socketLookup(lookup: HostLookup, random: Random): LookupFunction {
  return (name, _options, callback) => {
    lookup.lookup(name, new AbortController().signal).then(
      (addresses) => {
        const first = Math.floor(random.fraction() * addresses.length);
        const turned = [...addresses.slice(first), ...addresses.slice(0, first)];
        callback(
          null,
          turned.map((address) => ({ address, family: isIP(address) })),
        );
      },
      (error: unknown) => {
        callback(error as Error, []);
      },
    );
  };
}
