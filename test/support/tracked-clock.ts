import assert from "node:assert/strict";
import { after } from "node:test";
import { systemClock } from "@reachback/common";
import type { Clock } from "@reachback/common";

/** The system's clock, which knows how many timers are pending. */
export class TrackedClock implements Clock {
  readonly #pending = new Set<object>();

  get pendingTimers(): number {
    return this.#pending.size;
  }

  now(): number {
    return systemClock.now();
  }

  wallTimeMs(): number {
    return systemClock.wallTimeMs();
  }

  schedule(delayMs: number, callback: () => void): () => void {
    const timer = {};
    this.#pending.add(timer);
    const cancel = systemClock.schedule(delayMs, () => {
      this.#pending.delete(timer);
      callback();
    });
    return () => {
      this.#pending.delete(timer);
      cancel();
    };
  }
}

/** Sockets, listeners and the like that are open in this process; not its standard streams. */
export function openHandles(): string[] {
  return process
    .getActiveResourcesInfo()
    .filter((name) => /^(TCP|TLS|Pipe(Server|Connect)|GetAddrInfo|UDP|QueryReq)/.test(name));
}

/** Fail the file if sockets or listeners are left open a moment after its last test. */
export function checkForLeaksAtEnd(): void {
  after(async () => {
    const deadlineMs = performance.now() + 3_000;
    while (openHandles().length > 0 && performance.now() < deadlineMs) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert.deepEqual(openHandles(), []);
  });
}
