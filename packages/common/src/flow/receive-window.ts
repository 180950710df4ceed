import type { WindowBudget } from "./window-budget.ts";

/** The bounds of a receive window, in bytes. */
export interface ReceiveWindowLimits {
  /** Its first size, which the sender may use without being told. */
  readonly initialBytes: number;
  /** Its largest size. */
  readonly maxBytes: number;
}

/**
 * What one direction of a connection may send us: credit in bytes, given back as the bytes are
 * taken by whoever they are for, not as they arrive.
 *
 * It begins small and finds the size that the round trip needs: when the sender has used up all its
 * credit and nothing of what it sent waits here, the line lay idle for want of credit, so the window
 * is below the bandwidth-delay product. Then it is doubled, within the bounds and the budget. A
 * consumer that is slow leaves bytes waiting, and so never makes its window grow.
 *
 * Pure arithmetic: the caller sends the credit and closes the connection that overruns.
 */
export class ReceiveWindow {
  readonly #limits: ReceiveWindowLimits;
  readonly #budget: WindowBudget;
  #windowBytes: number;
  /** Totals since the connection began. The sender may send up to the first. */
  #grantedBytes: number;
  #receivedBytes = 0;
  #takenBytes = 0;
  #budgetedBytes = 0;

  constructor(limits: ReceiveWindowLimits, budget: WindowBudget) {
    this.#limits = limits;
    this.#budget = budget;
    this.#windowBytes = limits.initialBytes;
    this.#grantedBytes = limits.initialBytes;
  }

  get windowBytes(): number {
    return this.#windowBytes;
  }

  /** Bytes received and not yet taken. */
  get waitingBytes(): number {
    return this.#receivedBytes - this.#takenBytes;
  }

  /** Count bytes that arrived. False if the sender had no credit for them. */
  receive(bytes: number): boolean {
    this.#receivedBytes += bytes;
    return this.#receivedBytes <= this.#grantedBytes;
  }

  /** Count bytes that were taken. Returns the credit to send now; 0 if it is not worth a packet. */
  take(bytes: number): number {
    this.#takenBytes += bytes;
    if (this.#receivedBytes === this.#grantedBytes && this.#takenBytes === this.#receivedBytes) {
      this.#grow();
    }
    const creditBytes = this.#takenBytes + this.#windowBytes - this.#grantedBytes;
    if (creditBytes * 4 < this.#windowBytes) return 0;
    this.#grantedBytes += creditBytes;
    return creditBytes;
  }

  /** Give the budget back; the window must not be used any more. Idempotent. */
  close(): void {
    this.#budget.release(this.#budgetedBytes);
    this.#budgetedBytes = 0;
  }

  #grow(): void {
    const wantedBytes = Math.min(this.#windowBytes, this.#limits.maxBytes - this.#windowBytes);
    if (wantedBytes <= 0) return;
    const bytes = this.#budget.take(wantedBytes);
    this.#budgetedBytes += bytes;
    this.#windowBytes += bytes;
  }
}
