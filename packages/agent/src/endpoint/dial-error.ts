import { ConnectError, joinHostPort, systemErrorText } from "@reachback/common";

/** Why an endpoint could not be dialed, for upstream's metric. */
export type DialErrorReason = "timeout" | "unknown";

/**
 * An endpoint could not be dialed. The message is what Go's net package would say: servers derive
 * an HTTP status from it, and operators know it.
 */
export class DialError extends Error {
  override readonly name = "DialError";
  readonly reason: DialErrorReason;

  constructor(message: string, reason: DialErrorReason = "unknown", cause?: unknown) {
    super(message, { cause });
    this.reason = reason;
  }
}

/** What was known of a dial when it failed. */
export interface FailedDial {
  readonly host: string;
  readonly port: number;
  /** The first address that the host's name led to, if it had one and was looked up. */
  readonly resolved: string | undefined;
  /** The name server that was asked, `host:port`. */
  readonly nameServer: string | undefined;
}

/** The dial error for a failure to connect. */
export function dialErrorFrom(error: unknown, dial: FailedDial): DialError {
  if (!(error instanceof ConnectError)) return new DialError(`dial tcp: ${String(error)}`);
  const { cause, phase } = error;
  if (phase === "lookup") return lookupError(error, dial);
  const target = targetOf(cause, dial);
  if (error.timedOut || codeOf(cause) === "ETIMEDOUT") {
    return new DialError(`dial tcp ${target}: i/o timeout`, "timeout", error);
  }
  const reason = cause instanceof Error ? systemErrorText(cause) : error.message;
  // Without a descriptor there was nothing to connect with.
  const step = reason.startsWith("too many open files") ? "socket" : "connect";
  return new DialError(`dial tcp ${target}: ${step}: ${reason}`, "unknown", error);
}

function lookupError(error: ConnectError, { host, nameServer }: FailedDial): DialError {
  const where = nameServer === undefined ? host : `${host} on ${nameServer}`;
  if (error.timedOut) {
    return new DialError(`dial tcp: lookup ${where}: i/o timeout`, "timeout", error);
  }
  const reason = codeOf(error.cause) === "ENOTFOUND" ? "no such host" : "server misbehaving";
  return new DialError(`dial tcp: lookup ${where}: ${reason}`, "unknown", error);
}

/** The address that failed: with several tried, the first, as Go reports it. */
function targetOf(cause: unknown, { host, port, resolved }: FailedDial): string {
  const failed =
    cause instanceof Error && "address" in cause && typeof cause.address === "string"
      ? cause.address
      : undefined;
  // Go prints an empty host as it was given.
  return joinHostPort(host === "" ? "" : (failed ?? resolved ?? host), port);
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
