import { InvalidValueError } from "@reachback/common";
import type { FlagType } from "@reachback/common";

/** Where a listener is reached. */
export type ListenAddress =
  | { readonly kind: "unix"; readonly path: string }
  /** `host` is empty for all interfaces. An IPv6 address has no brackets. */
  | { readonly kind: "tcp"; readonly host: string; readonly port: number };

/** The two protocols in which an apiserver can ask for connections. */
export type FrontendProtocol = "grpc" | "http-connect";

/** One listener for those who ask the server for connections. */
export interface FrontendSpec {
  readonly protocol: FrontendProtocol;
  readonly address: ListenAddress;
}

export function isFrontendProtocol(text: string): text is FrontendProtocol {
  return text === "grpc" || text === "http-connect";
}

/** `PROTOCOL,unix:PATH`, `PROTOCOL,HOST:PORT`, `PROTOCOL,[IPV6]:PORT` or `PROTOCOL,:PORT`. */
export const frontendListType: FlagType<readonly FrontendSpec[]> = {
  name: "frontends",
  placeholder: "protocol,address",
  parse: (text) => [parseFrontend(text)],
  format: (value) => `[${value.map(formatFrontend).join(" ")}]`,
  append: (earlier, later) => [...earlier, ...later],
};

function parseFrontend(text: string): FrontendSpec {
  const [, protocol = "", address = ""] = /^([^,]*),(.*)$/s.exec(text) ?? [];
  if (!isFrontendProtocol(protocol)) {
    throw new InvalidValueError(
      "must be grpc,ADDRESS or http-connect,ADDRESS, with unix:PATH or HOST:PORT for ADDRESS",
    );
  }
  return { protocol, address: parseListenAddress(address) };
}

function parseListenAddress(text: string): ListenAddress {
  if (text.startsWith("unix:")) {
    const path = text.slice("unix:".length);
    if (path === "") throw new InvalidValueError("the address unix: names no path");
    return { kind: "unix", path };
  }
  const parts = /^(?:\[(?<ipv6>[^\][]+)\]|(?<host>[^\][:]*)):(?<port>[0-9]{1,5})$/.exec(text);
  const port = Number(parts?.groups?.["port"] ?? 0);
  if (port < 1 || port > MAX_PORT) {
    throw new InvalidValueError(
      "the address must be unix:PATH, HOST:PORT or [IPV6]:PORT, with a port from 1 to 65535",
    );
  }
  return { kind: "tcp", host: parts?.groups?.["ipv6"] ?? parts?.groups?.["host"] ?? "", port };
}

const MAX_PORT = 65_535;

/** The frontend as `--frontend` takes it. */
export function formatFrontend({ protocol, address }: FrontendSpec): string {
  return `${protocol},${formatListenAddress(address)}`;
}

export function formatListenAddress(address: ListenAddress): string {
  if (address.kind === "unix") return `unix:${address.path}`;
  const host = address.host.includes(":") ? `[${address.host}]` : address.host;
  return `${host}:${address.port}`;
}
