import type { Socket } from "node:net";
import { readBorrowed, recycledMemory, systemClock, writeTogether } from "@reachback/common";
import { DelayQueue } from "./delay-queue.ts";

/** Enough for 5 GB/s over 50 ms one way; what waits for a slow reader is bounded by it too. */
const CAPACITY_BYTES = 256 * 1024 * 1024;

/** The end of the bytes, as it goes through the queue behind them. */
const END = Buffer.alloc(0);

/**
 * Carries what `source` sends to `target`, each chunk a fixed time after it came.
 *
 * When `target` takes no more, chunks wait in the queue; when that is full, `source` is paused.
 * The bytes are in memory that is used again, as the tunnel's are: a link that takes CPU
 * from what is measured behind it is not only a delay.
 */
export function startDelayLine(source: Socket, target: Socket, delayMs: number): void {
  const queue = new DelayQueue<Buffer>(delayMs, CAPACITY_BYTES);
  let timer: NodeJS.Timeout | undefined;

  const release = () => {
    const nowMs = performance.now();
    target.cork();
    while (!target.writableNeedDrain) {
      const chunk = queue.shiftDue(nowMs);
      if (chunk === undefined) break;
      if (chunk === END) target.end();
      else writeTogether(target, [chunk]);
    }
    target.uncork();
    if (source.isPaused() && !queue.isFull) source.resume();
    wake(nowMs);
  };
  /** Come back when the next chunk is due; timers count in whole milliseconds. */
  const wake = (nowMs: number) => {
    const dueMs = queue.nextDueMs;
    if (timer !== undefined || target.writableNeedDrain || dueMs === undefined) return;
    timer = setTimeout(
      () => {
        timer = undefined;
        release();
      },
      Math.ceil(dueMs - nowMs),
    );
  };
  const push = (chunk: Buffer) => {
    const nowMs = performance.now();
    queue.push(chunk, nowMs);
    if (queue.isFull) source.pause();
    if (delayMs === 0) release();
    else wake(nowMs);
  };

  readBorrowed(source, systemClock, (bytes) => {
    push(recycledMemory.keep(bytes));
  });
  source.on("end", () => {
    push(END);
  });
  target.on("drain", release);
  target.on("close", (hadError) => {
    clearTimeout(timer);
    // Closed in order, both ways: what it sent last may still be on its way to `source`.
    if (hadError) source.resetAndDestroy();
  });
  // It is followed by close.
  source.on("error", () => undefined);
}
