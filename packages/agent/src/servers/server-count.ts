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
