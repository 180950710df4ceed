import { ConnectError, joinHostPort, systemErrorText } from "@reachback/common";
import { LookupError } from "../lookup/host-lookup.ts";

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

/** The time for a whole dial is over. */
export class DialTimeoutError extends Error {
  override readonly name = "DialTimeoutError";
}

/** What was known of a dial when it failed. */
export interface FailedDial {
  readonly host: string;
  readonly port: number;
  /** What the host's name led to; absent as long as it was not known. */
  readonly addresses?: readonly string[] | undefined;
  /** The name server that was asked, `host:port`. */
  readonly nameServer?: string | undefined;
}

/** The dial error for a failure to look up or to connect. */
export function dialErrorFrom(error: unknown, dial: FailedDial): DialError {
  if (error instanceof LookupError) return lookupError(error, error.failure, dial);
  if (error instanceof DialTimeoutError) {
    return dial.addresses === undefined
      ? lookupError(error, "timeout", dial)
      : timeoutError(error, undefined, dial);
  }
  if (!(error instanceof ConnectError)) return new DialError(`dial tcp: ${String(error)}`);
  const { cause } = error;
  if (error.timedOut || codeOf(cause) === "ETIMEDOUT") return timeoutError(error, cause, dial);
  const reason = cause instanceof Error ? systemErrorText(cause) : error.message;
  // Without a descriptor there was nothing to connect with.
  const step = reason.startsWith("too many open files") ? "socket" : "connect";
  return new DialError(`dial tcp ${targetOf(cause, dial)}: ${step}: ${reason}`, "unknown", error);
}

const LOOKUP_PHRASES = {
  "not-found": "no such host",
  timeout: "i/o timeout",
  failed: "server misbehaving",
} as const;

function lookupError(
  error: Error,
  failure: LookupError["failure"],
  { host, nameServer }: FailedDial,
): DialError {
  const where = nameServer === undefined ? host : `${host} on ${nameServer}`;
  const reason = failure === "timeout" ? "timeout" : "unknown";
  return new DialError(`dial tcp: lookup ${where}: ${LOOKUP_PHRASES[failure]}`, reason, error);
}

function timeoutError(error: Error, cause: unknown, dial: FailedDial): DialError {
  return new DialError(`dial tcp ${targetOf(cause, dial)}: i/o timeout`, "timeout", error);
}

/** The address that failed: with several tried, the first, as Go reports it. */
function targetOf(cause: unknown, { host, port, addresses }: FailedDial): string {
  const failed =
    cause instanceof Error && "address" in cause && typeof cause.address === "string"
      ? cause.address
      : undefined;
  // Go prints an empty host as it was given.
  return joinHostPort(host === "" ? "" : (failed ?? addresses?.[0] ?? host), port);
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
