/** What dials may take. Of a count, 0 means no limit. */
export interface DialLimits {
  /** From the request to an agent to its answer, in milliseconds; 0 for ever. */
  readonly backendDialTimeoutMs: number;
  /** For the first agent to come, once per start of the server, in milliseconds; 0 for no wait. */
  readonly startupDialHoldMs: number;
  readonly maxPendingDials: number;
  /** Connections and pending dials together. */
  readonly maxConnections: number;
  /** The same, of one tunnel. */
  readonly maxConnectionsPerAgent: number;
  /** Processes that each have these limits; for texts. @defaultValue 1 */
  readonly workers?: number;
  /** Silence after which another agent is asked, in milliseconds. @defaultValue FIRST_AGENT_MS */
  readonly firstAgentMs?: number;
}

/**
 * What the first agent has before another is asked as well. Agents give an endpoint five seconds,
 * ours and upstream's: one that has said nothing by now does not answer at all.
 */
export const FIRST_AGENT_MS = 6_000;

/**
 * The same where a neighbour has handed in the dial: a little less than the neighbour waits, so that it
 * is noticed here which agent says nothing.
 */
export const HANDED_IN_FIRST_AGENT_MS = FIRST_AGENT_MS - 500;

/** How texts name the flag of a limit. */
export function limitFlag(flag: string, workers = 1): string {
  return workers > 1 ? `(${flag}, of each of ${workers} workers)` : `(${flag})`;
}

/** Whether `count` is as many as there may be. */
export function isAt(limit: number, count: number): boolean {
  return limit > 0 && count >= limit;
}
