const INTERVAL_MS = 100;

/** What all processes together may use of a core at rest: timers, pings. */
const MAX_SHARE_AT_REST = 0.05;

const LIMIT_MS = 3_000;

/**
 * Wait until whatever was measured before is at rest: Node collects garbage for a while when a transfer is
 * over, and whoever came next would pay for that with caches and cores. Gives up after three seconds.
 *
 * @param cpuSeconds - What all of them have used so far.
 */
export async function settle(
  cpuSeconds: () => number,
  sleep: (ms: number) => Promise<void>,
): Promise<void> {
  let before = cpuSeconds();
  for (let waitedMs = 0; waitedMs < LIMIT_MS; waitedMs += INTERVAL_MS) {
    await sleep(INTERVAL_MS);
    const now = cpuSeconds();
    if (now - before <= (MAX_SHARE_AT_REST * INTERVAL_MS) / 1000) return;
    before = now;
  }
}
