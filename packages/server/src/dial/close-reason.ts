import { FLOW_CONTROL_VIOLATED, HALF_CLOSE_TIMEOUT } from "@reachback/common";

/**
 * Why a connection ended. A closed set: it labels metrics and log lines, and tests rely on it.
 *
 * - `client_closed`: the frontend finished, in an orderly way.
 * - `client_lost`: the frontend's socket or stream failed or went away.
 * - `endpoint_closed`: the endpoint finished, in an orderly way.
 * - `endpoint_error`: the endpoint's connection failed, a reset for instance.
 * - `agent_lost`: the tunnel ended under it.
 * - `protocol_error`: the frontend, or the agent, broke the protocol.
 * - `slow_consumer`: the frontend took nothing, and its agent has no flow control.
 * - `half_close_timeout`: one side had finished, and the other said nothing for too long.
 * - `shutdown`: this server was stopped.
 */
export type CloseReason =
  | "client_closed"
  | "client_lost"
  | "endpoint_closed"
  | "endpoint_error"
  | "agent_lost"
  | "protocol_error"
  | "slow_consumer"
  | "half_close_timeout"
  | "shutdown";

/** What to look at when the server cuts a connection by its own decision: such an end is warned of. */
export const CUT_HINTS: Partial<Record<CloseReason, string>> = {
  protocol_error: "a peer broke the protocol: which programs and versions are at both ends?",
  slow_consumer: "the client took nothing while its agent waited: see --stall-timeout",
  half_close_timeout: "one side had finished and the other was silent: see --half-close-timeout",
};

/**
 * What a frontend is told when a tunnel ends under its connection. Upstream says nothing there,
 * which looks like an orderly end; Go clients ignore the text.
 */
export const TUNNEL_LOST_TEXT = {
  agent_lost: "agent connection lost",
  shutdown: "proxy server shutting down",
} as const;

/** What the two sides are told when it was us who ended a connection. */
export const OUR_REASON_TEXT = {
  protocol_error: FLOW_CONTROL_VIOLATED,
  slow_consumer: "slow consumer",
  half_close_timeout: HALF_CLOSE_TIMEOUT,
} as const;
