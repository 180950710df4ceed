/**
 * Why a connection ended. A closed set: it labels metrics and log lines, and tests rely on it.
 *
 * - `server_closed`: the server asked for it, or finished after the endpoint: the frontend is done.
 * - `server_reset`: the server asked for it (RESET), the frontend being gone.
 * - `endpoint_closed`: the endpoint finished, in an orderly way.
 * - `endpoint_error`: the endpoint's connection failed, a reset for instance.
 * - `endpoint_stalled`: the connection was closing, and the endpoint took nothing for too long.
 * - `slow_consumer`: the same while open, towards a server without flow control.
 * - `half_close_timeout`: the server had finished, and the endpoint said nothing for too long.
 * - `protocol_error`: the server broke the protocol.
 * - `tunnel_lost`: the tunnel ended under it.
 */
export type CloseReason =
  | "server_closed"
  | "server_reset"
  | "endpoint_closed"
  | "endpoint_error"
  | "endpoint_stalled"
  | "slow_consumer"
  | "half_close_timeout"
  | "protocol_error"
  | "tunnel_lost";

/** What to look at when the agent cuts a connection by its own decision: such an end is warned of. */
export const CUT_HINTS: Partial<Record<CloseReason, string>> = {
  endpoint_stalled: "the connection was closing and the endpoint took nothing: is it stuck?",
  slow_consumer: "the endpoint took nothing while the server waited: see --stall-timeout",
  half_close_timeout:
    "the client had finished and the endpoint was silent: see --half-close-timeout",
  protocol_error: "the server broke the protocol: which version is it?",
};
