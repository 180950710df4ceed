import { UsageError, splitHostPort } from "@reachback/common";
import type { ClientOptions } from "@reachback/client";

/** Where a Reachback server is, from `grpc|http-connect,unix:PATH|HOST:PORT`, as its own flag says it. */
export function frontendFromText(text: string): Pick<ClientOptions, "protocol" | "address"> {
  const comma = text.indexOf(",");
  const protocol = text.slice(0, comma);
  const place = text.slice(comma + 1);
  if (protocol !== "grpc" && protocol !== "http-connect") {
    throw new UsageError([
      `--frontend=${text} must begin with "grpc," or "http-connect,", as the server's flag does`,
    ]);
  }
  if (place.startsWith("unix:")) {
    return { protocol, address: { kind: "unix", path: place.slice("unix:".length) } };
  }
  const target = splitHostPort(place);
  if (typeof target === "string") throw new UsageError([`--frontend=${text}: ${target}`]);
  return { protocol, address: { kind: "tcp", host: target.host, port: Number(target.port) } };
}
