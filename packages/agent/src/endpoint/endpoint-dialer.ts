import { getServers, lookup } from "node:dns";
import type { LookupAddress } from "node:dns";
import type { LookupFunction, Socket } from "node:net";
import { connectSocket, splitHostPort } from "@reachback/common";
import type { Clock } from "@reachback/common";
import { DialError, dialErrorFrom } from "./dial-error.ts";

/** Reaches endpoints. */
export interface EndpointDialer {
  /**
   * Connect to `address` (`host:port`), resolving its host here.
   *
   * @throws {DialError}, or `signal`'s reason when it aborts.
   */
  dial(protocol: string, address: string, signal: AbortSignal): Promise<Socket>;
}

/** What an empty host means: this machine. */
const LOCAL_HOST = "127.0.0.1";

const MAX_PORT = 65_535;

/** Dials TCP endpoints, whatever their address. */
export class TcpEndpointDialer implements EndpointDialer {
  readonly #clock: Clock;
  readonly #timeoutMs: number;

  /** @param timeoutMs - For the whole dial, look-up included. */
  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  async dial(protocol: string, address: string, signal: AbortSignal): Promise<Socket> {
    if (protocol !== "tcp") {
      throw new DialError(
        protocol === ""
          ? "dial: unknown network "
          : `dial ${protocol}: unknown network ${protocol}`,
      );
    }
    const { host, port } = endpointOf(address);
    let resolved: string | undefined;
    const firstAddressKept: LookupFunction = (name, options, callback) => {
      lookup(name, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
        resolved = error === null ? addresses[0]?.address : undefined;
        callback(error, addresses);
      });
    };
    try {
      return await connectSocket({
        address: { kind: "tcp", host: host === "" ? LOCAL_HOST : host, port },
        timeoutMs: this.#timeoutMs,
        clock: this.#clock,
        signal,
        lookup: firstAddressKept,
      });
    } catch (error) {
      if (signal.aborted) throw error;
      throw dialErrorFrom(error, { host, port, resolved, nameServer: nameServer() });
    }
  }
}

/** @throws {DialError} in Go's words. */
function endpointOf(address: string): { host: string; port: number } {
  const parts = splitHostPort(address);
  if (typeof parts === "string") throw new DialError(`dial tcp: address ${address}: ${parts}`);
  const { host, port } = parts;
  if (!/^\d*$/.test(port)) throw new DialError(`dial tcp: lookup tcp/${port}: unknown port`);
  if (Number(port) > MAX_PORT) throw new DialError(`dial tcp: address ${port}: invalid port`);
  return { host, port: Number(port) };
}

/** The first name server of the system, as Go names it in its errors. */
function nameServer(): string | undefined {
  const [first] = getServers();
  if (first === undefined) return undefined;
  if (/:\d+$/.test(first) && (first.startsWith("[") || first.split(":").length === 2)) return first;
  return first.includes(":") ? `[${first}]:53` : `${first}:53`;
}
