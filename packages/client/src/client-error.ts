/**
 * What went wrong, for programs to branch on; the message is for people.
 *
 * - `ERR_SERVER_UNREACHABLE`: no connection to the server: look-up, TCP, TLS; `cause` has it.
 * - `ERR_SERVER_PROTOCOL`: the server answered something that is not its protocol.
 * - `ERR_NO_AGENT`: the server has no agent for the endpoint.
 * - `ERR_DIAL_FAILED`: the agent could not reach the endpoint; the message is the agent's.
 * - `ERR_DIAL_TIMEOUT`: no answer in time, whoever gave up first.
 * - `ERR_CONNECTION_LOST`: the connection was open, and ended in another way than by its ends.
 */
export type ClientErrorCode =
  | "ERR_SERVER_UNREACHABLE"
  | "ERR_SERVER_PROTOCOL"
  | "ERR_NO_AGENT"
  | "ERR_DIAL_FAILED"
  | "ERR_DIAL_TIMEOUT"
  | "ERR_CONNECTION_LOST";

/** The only error that this library makes; a dial that is aborted rejects with the signal's reason. */
export class ClientError extends Error {
  override readonly name = "ClientError";
  readonly code: ClientErrorCode;

  constructor(code: ClientErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.code = code;
  }
}

/** The error for a dial that the server reports as failed with `text`, in Go's words. */
export function dialErrorFrom(text: string): ClientError {
  if (text.includes("No agent available")) return new ClientError("ERR_NO_AGENT", text);
  const timedOut = /i\/o timeout|deadline exceeded|timed out/i.test(text);
  return new ClientError(timedOut ? "ERR_DIAL_TIMEOUT" : "ERR_DIAL_FAILED", text);
}
