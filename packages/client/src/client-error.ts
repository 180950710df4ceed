/**
 * What went wrong, for programs to branch on; the message is for people.
 *
 * - `ERR_INVALID_OPTIONS`: an option, an endpoint or a TLS file cannot be used as it is.
 * - `ERR_SERVER_UNREACHABLE`: there is no way to the server (look-up, TCP, TLS), or it went away
 *   before it answered; `cause` has the system's or TLS's own error, if there is one.
 * - `ERR_SERVER_PROTOCOL`: the server answered something that is not its protocol.
 * - `ERR_NO_AGENT`: the server has no agent for the endpoint.
 * - `ERR_DIAL_FAILED`: the endpoint was not reached; the message is the agent's or the server's.
 * - `ERR_DIAL_TIMEOUT`: no answer in time, whoever gave up first.
 * - `ERR_CONNECTION_LOST`: the connection was open, and ended in another way than by its ends.
 * - `ERR_CLIENT_CLOSED`: {@link Client.close} was called before the dial was through.
 */
export type ClientErrorCode =
  | "ERR_INVALID_OPTIONS"
  | "ERR_SERVER_UNREACHABLE"
  | "ERR_SERVER_PROTOCOL"
  | "ERR_NO_AGENT"
  | "ERR_DIAL_FAILED"
  | "ERR_DIAL_TIMEOUT"
  | "ERR_CONNECTION_LOST"
  | "ERR_CLIENT_CLOSED";

/** The only error that this library makes; a dial that is aborted rejects with the signal's reason. */
export class ClientError extends Error {
  override readonly name = "ClientError";
  readonly code: ClientErrorCode;

  constructor(code: ClientErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** The error for a dial that the server reports as failed with `text`, in Go's words. */
export function dialErrorFrom(text: string): ClientError {
  if (text.includes("No agent available")) return new ClientError("ERR_NO_AGENT", text);
  // What the server's CONNECT frontend makes a 504 of, and what it says of its own deadline.
  const timedOut = /timeout|timed out|deadline exceeded/i.test(text);
  return new ClientError(timedOut ? "ERR_DIAL_TIMEOUT" : "ERR_DIAL_FAILED", text);
}
