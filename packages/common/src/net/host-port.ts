/** Go's `net.JoinHostPort`: an IPv6 host gets brackets. */
export function joinHostPort(host: string, port: number | string): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

export interface HostPort {
  readonly host: string;
  readonly port: string;
}

/**
 * Go's `net.SplitHostPort`: `host:port` with brackets around a host that holds colons. Returns Go's
 * words for what is wrong (`missing port in address`) if it is something else.
 */
export function splitHostPort(address: string): HostPort | string {
  const colon = address.lastIndexOf(":");
  if (colon < 0) return "missing port in address";
  let host: string;
  let afterOpen = 0;
  let afterClose = 0;
  if (address.startsWith("[")) {
    const close = address.indexOf("]");
    if (close < 0) return "missing ']' in address";
    if (close + 1 === address.length) return "missing port in address";
    if (close + 1 !== colon) {
      return address[close + 1] === ":" ? "too many colons in address" : "missing port in address";
    }
    host = address.slice(1, close);
    afterOpen = 1;
    afterClose = close + 1;
  } else {
    host = address.slice(0, colon);
    if (host.includes(":")) return "too many colons in address";
  }
  if (address.includes("[", afterOpen)) return "unexpected '[' in address";
  if (address.includes("]", afterClose)) return "unexpected ']' in address";
  return { host, port: address.slice(colon + 1) };
}
