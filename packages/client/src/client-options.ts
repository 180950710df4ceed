import { splitHostPort } from "@reachback/common";
import type { ConnectAddress } from "@reachback/common";
import { ClientError } from "./client-error.ts";

/**
 * Files, in PEM, for mutual TLS with a server's TCP frontend. They are read anew for each connection
 * to the server, so renewed ones are used as soon as they are there.
 */
export interface ClientTlsFiles {
  /** The CA of the server's certificate; nothing else is trusted. */
  readonly caPath: string;
  readonly certPath: string;
  readonly keyPath: string;
  /** Whom the server's certificate must be for. @defaultValue the host that is connected to */
  readonly serverName?: string;
}

export interface ClientOptions {
  /** The frontend's protocol: what the server's `--mode` or `--frontend` says. */
  readonly protocol: "grpc" | "http-connect";

  /** Where the frontend listens. */
  readonly address: ConnectAddress;

  /** Needed for a server's TCP frontend, which is never without; a Unix socket has none. */
  readonly tls?: ClientTlsFiles;

  /**
   * For a dial as a whole, in milliseconds, connecting to the server included. `Infinity` for none.
   *
   * @defaultValue 30 000, as upstream's client library
   */
  readonly dialTimeoutMs?: number;
}

/** Options of one dial. */
export interface DialOptions {
  /** Gives the dial up; it then rejects with the signal's reason. Without effect once it is open. */
  readonly signal?: AbortSignal;
  /** Instead of {@link ClientOptions.dialTimeoutMs}. */
  readonly timeoutMs?: number;
  /**
   * Whether the connection stays open for writing when the endpoint has finished; otherwise it is
   * ended then, as Node's sockets are. @defaultValue false
   */
  readonly allowHalfOpen?: boolean;
  /**
   * Called with the bytes that come, in order, once `dial` has resolved, instead of `data` events; `pause`,
   * `resume` and `end` are as with those. Their memory is used again as soon as this returns, so what is to be
   * kept must be copied. For whoever reads much and keeps little: eight downloads over gRPC are a sixth faster.
   * Over TLS a little may still come after a `pause`.
   */
  readonly onRead?: (bytes: Buffer) => void;
}

export const DEFAULT_DIAL_TIMEOUT_MS = 30_000;

/** @throws {ClientError} `ERR_INVALID_OPTIONS` unless it is a positive number. */
export function requireTimeout(name: string, timeoutMs: number): void {
  if (timeoutMs > 0) return;
  throw new ClientError("ERR_INVALID_OPTIONS", `${name} must be positive, not ${timeoutMs}`);
}

/**
 * Refuse what is no `host:port`, and what would mean something else in a request line.
 *
 * @throws {ClientError} `ERR_INVALID_OPTIONS`
 */
export function requireEndpoint(endpoint: string): void {
  const target = splitHostPort(endpoint);
  const problem =
    typeof target === "string"
      ? target
      : /[^!-~]|[/?#@\\]/.test(endpoint)
        ? "unexpected character"
        : undefined;
  if (problem === undefined) return;
  const text = `the endpoint ${JSON.stringify(endpoint)} is no host:port: ${problem}`;
  throw new ClientError("ERR_INVALID_OPTIONS", text);
}
