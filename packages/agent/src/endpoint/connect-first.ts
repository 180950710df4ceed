import type { Socket } from "node:net";
import type { CancelTimer, Clock } from "@reachback/common";

export interface ConnectFirstOptions {
  /** Makes one attempt; `signal` aborts when another one has won. */
  readonly connect: (address: string, signal: AbortSignal) => Promise<Socket>;
  readonly clock: Clock;
  /** How long an address has before the next one is tried as well, in milliseconds. */
  readonly delayMs: number;
  readonly signal: AbortSignal;
}

/**
 * Connect to whichever of `addresses` (at least one) accepts first, as RFC 8305 has it: the next one
 * is tried when one fails, or has not answered for a while. Node's own way would give up on an
 * address in order to try the next; here a slow one may still win.
 *
 * @throws what the first attempt that failed failed with, once all have; `signal`'s reason when it
 * aborts.
 */
export function connectFirst(
  addresses: readonly string[],
  { connect, clock, delayMs, signal }: ConnectFirstOptions,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const attempts = new AbortController();
    let startedCount = 0;
    let failedCount = 0;
    let firstError: Error | undefined;
    let isOver = false;
    let cancelDelay: CancelTimer | undefined;

    const finish = () => {
      isOver = true;
      cancelDelay?.();
      signal.removeEventListener("abort", onAbort);
      attempts.abort();
    };
    const onAbort = () => {
      finish();
      reject(signal.reason as Error);
    };
    const startNext = () => {
      cancelDelay?.();
      const address = addresses[startedCount];
      if (address === undefined) return;
      startedCount++;
      if (startedCount < addresses.length) cancelDelay = clock.schedule(delayMs, startNext);
      connect(address, attempts.signal).then(connected, failed);
    };
    const connected = (socket: Socket) => {
      if (isOver) {
        socket.destroy();
        return;
      }
      finish();
      resolve(socket);
    };
    const failed = (error: Error) => {
      if (isOver) return;
      firstError ??= error;
      failedCount++;
      if (failedCount < addresses.length) {
        startNext();
      } else {
        finish();
        reject(firstError);
      }
    };

    if (signal.aborted) {
      onAbort();
      return;
    }
    signal.addEventListener("abort", onAbort);
    startNext();
  });
}
