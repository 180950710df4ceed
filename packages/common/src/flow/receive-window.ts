import type { Clock } from "../clock.ts";
import type { WindowBudget } from "./window-budget.ts";

/**
 * Credit is given back in steps of half the window, as HTTP/2's usually is, and of no more than this: the
 * sender of a large window can tell a slow consumer from a dead one. A sender that is stopped goes on with
 * as much, and every stop costs: steps of a quarter are 2 % more CPU for a bulk transfer.
 */
const MAX_CREDIT_STEP_BYTES = 2048 * 1024;

/**
 * A sender that has stopped gets what is less than a step, too, if it is so much of one. Otherwise that stays behind
 * round trip after round trip: with a little less than half of a window it is half a window that goes on, takes two
 * round trips to be filled, and does not grow. Over 2 ms, 1 GiB went at 480 or 950 MiB/s, as it happened.
 */
const STOPPED_STEP_SHARE = 1 / 4;

/**
 * Up to this a window grows whenever the line lay idle. On a fast machine that is three milliseconds,
 * about what the event loops at both ends take now and then. With twice as much, dials beside a download
 * take 7.8 ms instead of 7.0 on average, with a p99 of 20 ms instead of 16, and eight downloads cost a thirtieth
 * more CPU; the download itself is a twelfth faster there, and no faster alone. Steps of credit of 256 KiB cost CPU.
 */
const FREE_GROWTH_BYTES = 2048 * 1024;

/**
 * The same once the windows of the tunnel have grown by {@link FREE_GROWTH_BYTES} together: with 4 MiB for each of
 * eight uploads, what is under way fits no cache any more, nor the memory that is used again: up to a tenth more CPU.
 */
const SHARED_FREE_GROWTH_BYTES = 512 * 1024;

/**
 * A larger one grows only while a whole window comes in less than so many round trips. With two or more
 * of bandwidth-delay products under way, what is more waits in the kernel's buffers, and everything
 * else of the tunnel behind it.
 */
const MAX_ROUND_TRIPS_PER_WINDOW = 2;

/**
 * What one connection has found out, the next one need not: a window grows by up to so many times its size at once
 * as long as all of the tunnel stay within half of what they had grown by before; the other half has to be found
 * out again. It must have been filled quickly, too: without a delay one of eight connections would have what is
 * for all, and more would be under way than caches hold. 1 GiB over 50 ms has a window of 32 MiB after four round
 * trips instead of nine, and 471 instead of 420 MiB/s. Where less would do by now, that is still no more than
 * eight bandwidth-delay products: a window only grows below one.
 */
const MAX_KNOWN_GROWTH = 7;

/** The shortest round trip is that of the last one or two spans of this length: routes change. */
const ROUND_TRIP_SPAN_MS = 10_000;

/** The bounds of a receive window, in bytes. */
export interface ReceiveWindowLimits {
  /** Its first size, which the sender may use without being told. */
  readonly initialBytes: number;
  /** Its largest size. */
  readonly maxBytes: number;
}

/** Credit that was given: behind which byte, and when. */
interface Addition {
  readonly atBytes: number;
  readonly atMs: number;
}

/**
 * What one direction of a connection may send us: credit in bytes, given back as the bytes are
 * taken by whoever they are for, not as they arrive.
 *
 * It begins small and finds the size that the round trip needs. A sender that is stopped for want of
 * credit stops exactly where its credit ended. If everything up to there has been taken, and more
 * has not come although there has long been credit for it, then the line lay idle: the window is
 * below the bandwidth-delay product, and is doubled, or made larger still if the tunnel has needed that
 * before; within the bounds and the budget, and at most once in a round trip, because until then nobody
 * can have used the larger one. A slow consumer leaves bytes waiting until new ones come, and so never
 * makes its window grow. As a line also lies idle while a busy machine does something else, a large
 * window must have been filled quickly, too, by the measure of the shortest round trip: from credit to
 * the first byte that it allowed.
 *
 * Pure arithmetic but for the time: the caller sends the credit and closes the connection that overruns.
 */
export class ReceiveWindow {
  readonly #limits: ReceiveWindowLimits;
  readonly #budget: WindowBudget;
  readonly #clock: Pick<Clock, "now">;
  #windowBytes: number;
  /** Totals since the connection began. The sender may send up to the first. */
  #grantedBytes: number;
  #receivedBytes = 0;
  #takenBytes = 0;
  /** Where credit was added, in order, as far as the sender has not passed it. */
  readonly #additions: Addition[] = [];
  /** Shortest round trip since the span began, and in the span before. */
  #roundTripMs = Infinity;
  #earlierRoundTripMs = Infinity;
  #roundTripSpanEndMs: number;
  /** The window that is being filled: since when, up to which byte; and how long the last one took. */
  #fillStartMs: number;
  #fillEndBytes: number;
  #fillMs = Infinity;
  /** What had been granted when the window grew last: what is beyond came with the larger one. */
  #grantedBeforeGrowth = 0;
  #budgetedBytes = 0;
  #isRetired = false;

  constructor(limits: ReceiveWindowLimits, budget: WindowBudget, clock: Pick<Clock, "now">) {
    this.#limits = limits;
    this.#budget = budget;
    this.#clock = clock;
    this.#fillStartMs = clock.now();
    this.#fillEndBytes = limits.initialBytes;
    this.#roundTripSpanEndMs = this.#fillStartMs + ROUND_TRIP_SPAN_MS;
    this.#windowBytes = limits.initialBytes;
    this.#grantedBytes = limits.initialBytes;
  }

  /** Bytes received and not yet taken. */
  get waitingBytes(): number {
    return this.#receivedBytes - this.#takenBytes;
  }

  /** Count bytes that arrived. False, and not counted, if the sender had no credit for them. */
  receive(bytes: number): boolean {
    if (this.#receivedBytes + bytes > this.#grantedBytes) return false;
    this.#receivedBytes += bytes;
    const nowMs = this.#clock.now();
    let next = this.#additions[0];
    while (next !== undefined && next.atBytes < this.#receivedBytes) {
      this.#roundTripTook(nowMs - next.atMs, nowMs);
      this.#additions.shift();
      next = this.#additions[0];
    }
    if (this.#receivedBytes >= this.#fillEndBytes) {
      this.#fillMs = nowMs - this.#fillStartMs;
      this.#fillAgain(nowMs);
    }
    return true;
  }

  /** Count bytes that were taken. Returns the credit to send now; 0 if it is not worth a packet. */
  take(bytes: number): number {
    this.#takenBytes += bytes;
    if (this.#isRetired) {
      this.#keepBudget(this.waitingBytes);
      return 0;
    }
    const isIdle = this.#takenBytes === this.#receivedBytes && this.#senderIsStopped;
    if (isIdle) this.#grow();
    const creditBytes = this.#takenBytes + this.#windowBytes - this.#grantedBytes;
    const stepBytes = Math.min(this.#windowBytes / 2, MAX_CREDIT_STEP_BYTES);
    if (creditBytes < (isIdle ? stepBytes * STOPPED_STEP_SHARE : stepBytes)) return 0;
    this.#additions.push({ atBytes: this.#grantedBytes, atMs: this.#clock.now() });
    this.#grantedBytes += creditBytes;
    return creditBytes;
  }

  /**
   * Nothing more comes: give back what of the budget no waiting bytes need, now and as they are taken.
   * No more credit is given. Idempotent.
   */
  retire(): void {
    this.#isRetired = true;
    this.#keepBudget(this.waitingBytes);
  }

  /** Nothing more comes, and nothing waits any more: give all of the budget back. Idempotent. */
  close(): void {
    this.#isRetired = true;
    this.#keepBudget(0);
  }

  /** Whether the sender has used up what it had been granted when it sent its last byte. */
  get #senderIsStopped(): boolean {
    return this.#receivedBytes === (this.#additions[0]?.atBytes ?? this.#grantedBytes);
  }

  #grow(): void {
    const wantedBytes = Math.min(this.#growthBytes, this.#limits.maxBytes - this.#windowBytes);
    if (wantedBytes <= 0 || this.#receivedBytes <= this.#grantedBeforeGrowth) return;
    if (this.#windowBytes >= this.#freeGrowthBytes && !this.#isFilledQuickly) return;
    this.#grantedBeforeGrowth = this.#grantedBytes;
    const bytes = this.#budget.take(wantedBytes);
    this.#budgetedBytes += bytes;
    this.#windowBytes += bytes;
    this.#fillMs = Infinity;
    this.#fillAgain(this.#clock.now());
  }

  /** What the window grows by. */
  get #growthBytes(): number {
    if (!this.#isFilledQuickly) return this.#windowBytes;
    const knownBytes = Math.floor(this.#budget.peakBytes / 2) - this.#budget.usedBytes;
    return Math.max(this.#windowBytes, Math.min(knownBytes, MAX_KNOWN_GROWTH * this.#windowBytes));
  }

  get #freeGrowthBytes(): number {
    const isShared = this.#budget.usedBytes >= FREE_GROWTH_BYTES;
    return isShared ? SHARED_FREE_GROWTH_BYTES : FREE_GROWTH_BYTES;
  }

  get #isFilledQuickly(): boolean {
    const roundTripMs = Math.min(this.#roundTripMs, this.#earlierRoundTripMs);
    return this.#fillMs < MAX_ROUND_TRIPS_PER_WINDOW * roundTripMs;
  }

  /** Give back what so many waiting bytes do not need; fewer than none after {@link close}. */
  #keepBudget(neededBytes: number): void {
    const unusedBytes = Math.max(0, this.#budgetedBytes - Math.max(0, neededBytes));
    this.#budgetedBytes -= unusedBytes;
    this.#budget.release(unusedBytes);
  }

  #fillAgain(nowMs: number): void {
    this.#fillStartMs = nowMs;
    this.#fillEndBytes = this.#receivedBytes + this.#windowBytes;
  }

  #roundTripTook(tookMs: number, nowMs: number): void {
    if (nowMs >= this.#roundTripSpanEndMs) {
      this.#roundTripSpanEndMs = nowMs + ROUND_TRIP_SPAN_MS;
      this.#earlierRoundTripMs = this.#roundTripMs;
      this.#roundTripMs = Infinity;
    }
    this.#roundTripMs = Math.min(this.#roundTripMs, tookMs);
  }
}
