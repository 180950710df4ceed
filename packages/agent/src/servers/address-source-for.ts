import type { AgentOptions } from "../options.ts";
import { FixedAddresses } from "./address-source.ts";
import type { AddressSource } from "./address-source.ts";
import { DnsAddresses } from "./dns-addresses.ts";
import type { DnsAddressesPorts } from "./dns-addresses.ts";

type DiscoveryOptions = Pick<
  AgentOptions,
  "servers" | "serverDiscovery" | "serverLookupIntervalMs"
>;

/** The addresses of servers, found in the way that was chosen (`--server-discovery`). */
export function addressSourceFor(
  { servers, serverDiscovery, serverLookupIntervalMs }: DiscoveryOptions,
  ports: DnsAddressesPorts,
): AddressSource {
  switch (serverDiscovery) {
    case "balancer":
      return new FixedAddresses(servers, { isShared: true });
    case "list":
      return new FixedAddresses(servers, { isShared: false });
    case "dns":
      return new DnsAddresses(servers, serverLookupIntervalMs, ports);
  }
}
