import { getServers } from "node:dns";
import { isIP } from "node:net";
import type { Socket } from "node:net";
import { connectSocket, splitHostPort } from "@reachback/common";
import type { Clock } from "@reachback/common";
import type { HostLookup } from "../lookup/host-lookup.ts";
import { connectFirst } from "./connect-first.ts";
import { DialError, DialTimeoutError, dialErrorFrom } from "./dial-error.ts";

/** Reaches endpoints. */
export interface EndpointDialer {
  /**
   * Connect to `address` (`host:port`), resolving its host here.
   *
   * @throws {DialError}, or `signal`'s reason when it aborts.
   */
  dial(protocol: string, address: string, signal: AbortSignal): Promise<Socket>;
}

export interface TcpEndpointDialerOptions {
  /** For the whole dial, look-up included. */
  readonly timeoutMs: number;
  /** How long one address of several has before the next is tried as well. */
  readonly nextAddressMs: number;
}

/** What an empty host means: this machine. */
const LOCAL_HOST = "127.0.0.1";

const MAX_PORT = 65_535;

/** Dials TCP endpoints, whatever their address. */
export class TcpEndpointDialer implements EndpointDialer {
  readonly #options: TcpEndpointDialerOptions;
  readonly #clock: Clock;
  readonly #lookup: HostLookup;

  constructor(options: TcpEndpointDialerOptions, clock: Clock, lookup: HostLookup) {
    this.#options = options;
    this.#clock = clock;
    this.#lookup = lookup;
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
    const target = host === "" ? LOCAL_HOST : host;
    if (isIP(target) === 0) return this.#dialName(host, port, signal);
    try {
      return await this.#connect(target, port, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      throw dialErrorFrom(error, { host, port });
    }
  }

  async #dialName(host: string, port: number, signal: AbortSignal): Promise<Socket> {
    const attempt = new AbortController();
    const onAbort = () => {
      attempt.abort(signal.reason);
    };
    const cancelTimer = this.#clock.schedule(this.#options.timeoutMs, () => {
      attempt.abort(new DialTimeoutError());
    });
    signal.addEventListener("abort", onAbort);
    let addresses: readonly string[] | undefined;
    try {
      signal.throwIfAborted();
      addresses = await this.#lookup.lookup(host, attempt.signal);
      return await connectFirst(addresses, {
        connect: (address, lost) => this.#connect(address, port, lost),
        clock: this.#clock,
        delayMs: this.#options.nextAddressMs,
        signal: attempt.signal,
      });
    } catch (error) {
      if (signal.aborted) throw error;
      throw dialErrorFrom(error, { host, port, addresses, nameServer: nameServer() });
    } finally {
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
    }
  }

  #connect(address: string, port: number, signal: AbortSignal): Promise<Socket> {
    return connectSocket({
      address: { kind: "tcp", host: address, port },
      timeoutMs: this.#options.timeoutMs,
      clock: this.#clock,
      signal,
    });
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
