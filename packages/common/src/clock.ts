/** Cancels a timer. Calling it twice, or after the timer fired, does nothing. */
export type CancelTimer = () => void;

/**
 * The only source of time in this repository.
 *
 * Production code receives a `Clock`; tests pass a `ManualClock` and move it by hand, so that no
 * test waits for a deadline.
 */
export interface Clock {
  /** Monotonic milliseconds. Only differences between two readings mean anything. */
  now(): number;

  /** Milliseconds since 1970, for what leaves the process: log lines, certificates, HTTP dates. */
  wallTimeMs(): number;

  /**
   * Run `callback` once, no earlier than `delayMs` from now. The timer does not keep the process
   * alive.
   */
  schedule(delayMs: number, callback: () => void): CancelTimer;
}

/** Node fires a longer timer at once. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => performance.now(),
  wallTimeMs: () => Date.now(),
  schedule(delayMs, callback) {
    let timer: NodeJS.Timeout;
    const wait = (remainingMs: number) => {
      timer = setTimeout(
        () => {
          if (remainingMs > LONGEST_TIMEOUT_MS) wait(remainingMs - LONGEST_TIMEOUT_MS);
          else callback();
        },
        Math.min(remainingMs, LONGEST_TIMEOUT_MS),
      );
      timer.unref();
    };
    wait(delayMs);
    return () => {
      clearTimeout(timer);
    };
  },
};
