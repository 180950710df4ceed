import { isIP } from "node:net";

/** The addresses of each name in a hosts file (hosts(5)), by {@link hostsKey}, in the file's order. */
export function parseHostsFile(text: string): ReadonlyMap<string, readonly string[]> {
  const hosts = new Map<string, string[]>();
  for (const line of text.split("\n")) {
    const [address = "", ...names] = line.replace(/#.*/, "").trim().split(/\s+/);
    if (isIP(address) === 0) continue;
    for (const name of names) {
      const addresses = hosts.get(hostsKey(name)) ?? [];
      if (!addresses.includes(address)) addresses.push(address);
      hosts.set(hostsKey(name), addresses);
    }
  }
  return hosts;
}

/** Names are compared without regard to case and to a final dot. */
export function hostsKey(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}
