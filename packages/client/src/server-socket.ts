import type { Socket } from "node:net";
import {
  ConnectError,
  clientTlsOptions,
  connectSocket,
  describeTlsError,
  joinHostPort,
  loadCaPool,
  loadKeyPair,
  systemErrorText,
} from "@reachback/common";
import type { Clock } from "@reachback/common";
import { ClientError } from "./client-error.ts";
import type { ClientOptions } from "./client-options.ts";

/** Where a server is, for messages. */
export function serverName({ address }: ClientOptions): string {
  return address.kind === "unix" ? address.path : joinHostPort(address.host, address.port);
}

/**
 * Connect to a frontend, with TLS verified if there is any.
 *
 * @throws {ClientError} `ERR_SERVER_UNREACHABLE`, or `ERR_DIAL_TIMEOUT` when the time is over.
 */
export async function connectToServer(
  options: ClientOptions,
  timeoutMs: number,
  clock: Clock,
  signal: AbortSignal | undefined,
): Promise<Socket> {
  const { address, tls, protocol } = options;
  try {
    return await connectSocket({
      address,
      timeoutMs,
      clock,
      ...(signal === undefined ? {} : { signal }),
      ...(tls === undefined
        ? {}
        : {
            tls: clientTlsOptions({
              ca: loadCaPool(tls.caPath, clock),
              keyPair: loadKeyPair(tls.certPath, tls.keyPath, clock),
              serverName: tls.serverName ?? (address.kind === "tcp" ? address.host : "localhost"),
              alpnProtocols: [protocol === "grpc" ? "h2" : "http/1.1"],
            }),
          }),
    });
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error;
    const where = `server ${serverName(options)}: ${error.phase}`;
    if (error.timedOut) throw new ClientError("ERR_DIAL_TIMEOUT", `${where} timed out`, error);
    const reason =
      error.phase === "tls"
        ? describeTlsError(error.cause ?? error, "server")
        : error.cause instanceof Error
          ? systemErrorText(error.cause)
          : error.message;
    throw new ClientError("ERR_SERVER_UNREACHABLE", `${where}: ${reason}`, error);
  }
}
