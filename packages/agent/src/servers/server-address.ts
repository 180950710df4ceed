import { isIP } from "node:net";
import { goQuote, joinHostPort, splitHostPort } from "@reachback/common";

/** Where a server, or a balancer before several, answers. */
export interface ServerAddress {
  /** What to connect to: a name or an IP address. */
  readonly host: string;
  readonly port: number;
  /** What the certificate must name: the host as it was given, also where its address was looked up. */
  readonly name: string;
}

const MAX_PORT = 65_535;

/** The same text for the same address, for logs too. */
export function addressText({ host, port, name }: ServerAddress): string {
  const text = joinHostPort(host, port);
  return host === name ? text : `${text} (${name})`;
}

/**
 * Read `host`, `host:port`, `[ipv6]:port` or a bare IPv6 address.
 *
 * @returns what is wrong with it, if it is something else.
 */
export function parseServerAddress(text: string, defaultPort: number): ServerAddress | string {
  if (text === "") return "proxy-server-host is empty: name a server";
  if (isIP(text) !== 0 || !/[:[\]]/.test(text)) return addressOf(text, defaultPort);
  const parts = splitHostPort(text);
  if (typeof parts === "string") return `proxy-server-host ${goQuote(text)}: ${parts}`;
  const port = /^\d{1,5}$/.test(parts.port) ? Number(parts.port) : 0;
  if (parts.host === "" || port < 1 || port > MAX_PORT) {
    return `proxy-server-host ${goQuote(text)} must be a host, or host:port with a port from 1 to ${MAX_PORT}`;
  }
  return addressOf(parts.host, port);
}

/** The final dot that keeps a name out of search domains stands in no certificate. */
function addressOf(host: string, port: number): ServerAddress {
  return { host, port, name: host.replace(/\.$/, "") };
}
