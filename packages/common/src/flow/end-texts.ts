// Errors that either end of a tunnel tells the other in words that both know (PROTOCOL.md).

/** The peer sent a byte that it had no credit for. */
export const FLOW_CONTROL_VIOLATED = "flow control violated";

/** One side had finished, and nothing came of the other for too long. */
export const HALF_CLOSE_TIMEOUT = "half-close timeout";
