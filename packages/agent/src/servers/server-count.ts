/**
 * How many servers there are, where servers share an address.
 *
 * What servers announce in the answer to `Connect` is always known; a source may know better.
 */
export interface ServerCountSource {
  /** The number of servers, given the number that they announce. */
  count(announced: number): number;
  /** @param onChange - {@link count} may return something else now. */
  start(onChange: () => void): void;
  stop(): void;
}

/** Believes the servers. */
export const announcedServerCount: ServerCountSource = {
  count: (announced) => announced,
  start: () => undefined,
  stop: () => undefined,
};

/**
 * One number out of what several servers announce: the largest, so that one which was set up with
 * another number than the rest, or not yet anew, costs no tunnel. A negative number stands for one
 * that is never reached, as upstream's agent takes it; 0, or nobody to say, for 1.
 */
export function combinedCount(announced: Iterable<number>): number {
  let most = 0;
  for (const count of announced) {
    if (count < 0) return count;
    most = Math.max(most, count);
  }
  return most === 0 ? 1 : most;
}
