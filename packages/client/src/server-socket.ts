import type { Socket } from "node:net";
import {
  ConnectError,
  TlsMaterialError,
  alpnProblem,
  clientTlsOptions,
  connectSocket,
  describeTlsError,
  joinHostPort,
  loadCaPool,
  loadKeyPair,
  systemErrorText,
} from "@reachback/common";
import type { Clock, ConnectOptions } from "@reachback/common";
import { TLSSocket } from "node:tls";
import { ClientError } from "./client-error.ts";
import type { ClientOptions } from "./client-options.ts";

/** Where a server is, for messages. */
export function serverName({ address }: ClientOptions): string {
  return address.kind === "unix" ? address.path : joinHostPort(address.host, address.port);
}

/**
 * Connect to a frontend, with TLS verified if there is any. There is no limit of time but `signal`.
 *
 * @throws {ClientError} `ERR_SERVER_UNREACHABLE`, `ERR_SERVER_PROTOCOL`, `ERR_INVALID_OPTIONS`; or
 * what `signal` aborts with.
 */
export async function connectToServer(
  options: ClientOptions,
  clock: Clock,
  signal: AbortSignal,
): Promise<Socket> {
  const { address, protocol } = options;
  let socket: Socket;
  try {
    socket = await connectSocket({
      address,
      timeoutMs: Number.POSITIVE_INFINITY,
      clock,
      signal,
      ...tlsOptions(options, clock),
    });
  } catch (error) {
    if (error instanceof TlsMaterialError) {
      throw new ClientError("ERR_INVALID_OPTIONS", error.message, error);
    }
    if (!(error instanceof ConnectError)) throw error;
    throw serverLost(options, error.phase, error.cause ?? error);
  }
  // As Go's: gRPC insists on ALPN, HTTP/1 does not.
  if (protocol === "grpc" && socket instanceof TLSSocket) {
    const problem = alpnProblem(socket.alpnProtocol, ["h2"], "server");
    if (problem !== undefined) {
      socket.destroy();
      throw new ClientError("ERR_SERVER_PROTOCOL", `server ${serverName(options)}: ${problem}`);
    }
  }
  return socket;
}

/** The error for a connection to the server that failed before there was an answer. */
export function serverLost(options: ClientOptions, step: string, cause: unknown): ClientError {
  const reason =
    step === "tls"
      ? describeTlsError(cause, "server")
      : systemErrorText(cause instanceof Error ? cause : new Error(String(cause)));
  return new ClientError(
    "ERR_SERVER_UNREACHABLE",
    `server ${serverName(options)}: ${step}: ${reason}`,
    cause,
  );
}

function tlsOptions(
  { address, tls, protocol }: ClientOptions,
  clock: Clock,
): Partial<ConnectOptions> {
  if (tls === undefined) return {};
  return {
    tls: clientTlsOptions({
      ca: loadCaPool(tls.caPath, clock),
      keyPair: loadKeyPair(tls.certPath, tls.keyPath, clock),
      serverName: tls.serverName ?? (address.kind === "tcp" ? address.host : "localhost"),
      alpnProtocols: [protocol === "grpc" ? "h2" : "http/1.1"],
    }),
  };
}
