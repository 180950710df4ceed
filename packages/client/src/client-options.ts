import type { ConnectAddress } from "@reachback/common";

/** Files, in PEM, for mutual TLS with a server's TCP frontend. */
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

  /** Needed for a TCP frontend; a Unix socket has none. */
  readonly tls?: ClientTlsFiles;

  /**
   * For a dial as a whole, in milliseconds, connecting to the server included.
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
}

export const DEFAULT_DIAL_TIMEOUT_MS = 30_000;
