import { setMaxListeners } from "node:events";
import { ApiError, Backoff, TokenBucket, apiErrorHint } from "@reachback/common";
import type { CancelTimer, Clock, Logger, Random } from "@reachback/common";
import type { AuthenticationMetrics } from "./authentication-metrics.ts";
import { invalidToken, rejected, undecided } from "./verdict.ts";
import type { ReviewedToken, Verdict } from "./verdict.ts";

export interface ReviewQueueOptions {
  /** Agents that may wait at a time. */
  readonly maxWaiting: number;
  /** How long an agent may wait. */
  readonly timeoutMs: number;
  /** Reviews per second, and how many may go out at once after a pause. */
  readonly perSecond: number;
  readonly burst: number;
}

export interface ReviewQueuePorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: AuthenticationMetrics;
}

/** Asks for one review. Fails with an {@link ApiError} if there is none. */
export type Reviewer = (token: string, signal: AbortSignal) => Promise<Verdict>;

/** An agent that waits for its token's review. */
export interface PendingVerdict {
  /** Called once, later, with the verdict; not after {@link cancel}. */
  onVerdict: ((verdict: Verdict) => void) | undefined;
  /** The agent has left. */
  cancel(): void;
}

interface Waiter extends PendingVerdict {
  cancelTimer: CancelTimer;
}

/** The review of one token, for however many agents. */
interface Review {
  readonly hash: string;
  readonly token: string;
  readonly waiters: Set<Waiter>;
}

/** Reviews under way at a time. At 50 a second they may take more than a second each. */
const MAX_CONCURRENT = 64;

/** Between attempts to reach an apiserver that fails, so that agents are in soon after it is back. */
const RETRY = { initialMs: 100, capMs: 1_000, factor: 2, jitter: 0.1 };

/**
 * The reviews that agents wait for, in their order: one at a time per token, as many per second as
 * the apiserver may be asked. While the apiserver cannot answer, one review at a time is tried again
 * and again, and the agents wait.
 */
export class ReviewQueue {
  readonly #options: ReviewQueueOptions;
  readonly #ports: ReviewQueuePorts;
  readonly #reviewer: Reviewer;
  readonly #bucket: TokenBucket;
  readonly #backoff: Backoff;
  /** All reviews, by the token's hash. */
  readonly #reviews = new Map<string, Review>();
  /** Those not under way, in order; the ones that failed before come first. */
  readonly #queued = new Set<Review>();
  readonly #again = new Set<Review>();
  readonly #stopping = new AbortController();
  #waitingCount = 0;
  #underWayCount = 0;
  /** Why the apiserver cannot answer, since it last did. */
  #problem: string | undefined;
  #cancelTimer: CancelTimer | undefined;

  constructor(options: ReviewQueueOptions, reviewer: Reviewer, ports: ReviewQueuePorts) {
    this.#options = options;
    this.#reviewer = reviewer;
    this.#ports = ports;
    this.#bucket = new TokenBucket(options.perSecond, options.burst, ports.clock);
    this.#backoff = new Backoff(RETRY, ports.random);
    // Each review under way listens.
    setMaxListeners(MAX_CONCURRENT, this.#stopping.signal);
  }

  /** Agents that wait. */
  get waitingCount(): number {
    return this.#waitingCount;
  }

  /** Have a token reviewed; a verdict at once if nobody can wait for it. */
  add(hash: string, token: string): Verdict | PendingVerdict {
    const { maxWaiting, timeoutMs } = this.#options;
    if (this.#stopping.signal.aborted) return STOPPING;
    if (this.#waitingCount >= maxWaiting) {
      this.#ports.metrics.agentTurnedAway("queue_full");
      return noReview(`${maxWaiting} agents wait for reviews already, try again later`);
    }
    const review = this.#reviews.get(hash) ?? { hash, token, waiters: new Set() };
    if (!this.#reviews.has(hash)) {
      this.#reviews.set(hash, review);
      this.#queued.add(review);
    }
    const waiter: Waiter = {
      onVerdict: undefined,
      cancel: () => {
        this.#leave(review, waiter);
      },
      cancelTimer: this.#ports.clock.schedule(timeoutMs, () => {
        this.#ports.metrics.agentTurnedAway("timeout");
        this.#settle(review, waiter, noReview(this.#tardiness()));
      }),
    };
    review.waiters.add(waiter);
    this.#waitingCount++;
    this.#proceed();
    return waiter;
  }

  /** Somebody else has had a token reviewed: whoever waits for that waits no longer. */
  learn({ hash, verdict }: ReviewedToken): void {
    const review = this.#reviews.get(hash);
    if (review === undefined) return;
    for (const waiter of [...review.waiters]) this.#settle(review, waiter, verdict);
  }

  /** Turn away all who wait, and those to come. */
  stop(): void {
    this.#cancelTimer?.();
    this.#stopping.abort(new Error("the server is stopping"));
    for (const review of [...this.#reviews.values()]) this.#finish(review, STOPPING);
  }

  #tardiness(): string {
    const seconds = this.#options.timeoutMs / 1000;
    const reason = this.#problem ?? `${this.#waitingCount} agents wait for reviews`;
    return `no answer to the TokenReview within ${seconds} s: ${reason}`;
  }

  #leave(review: Review, waiter: Waiter): void {
    if (!review.waiters.delete(waiter)) return;
    waiter.cancelTimer();
    this.#waitingCount--;
    // One that is under way goes on: its verdict is remembered, and agents may come that wait for it.
    if (review.waiters.size > 0) return;
    if (this.#queued.delete(review) || this.#again.delete(review)) {
      this.#reviews.delete(review.hash);
    }
  }

  #settle(review: Review, waiter: Waiter, verdict: Verdict): void {
    this.#leave(review, waiter);
    waiter.onVerdict?.(verdict);
  }

  #finish(review: Review, verdict: Verdict): void {
    this.#reviews.delete(review.hash);
    this.#queued.delete(review);
    this.#again.delete(review);
    for (const waiter of [...review.waiters]) this.#settle(review, waiter, verdict);
  }

  /** Begin as many reviews as may be. */
  #proceed(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const limit = this.#problem === undefined ? MAX_CONCURRENT : 1;
    while (this.#underWayCount < limit) {
      const [review] = this.#again.size > 0 ? this.#again : this.#queued;
      if (review === undefined) return;
      const waitMs = this.#bucket.take();
      if (waitMs > 0) {
        this.#cancelTimer = this.#ports.clock.schedule(waitMs, () => {
          this.#proceed();
        });
        return;
      }
      this.#again.delete(review);
      this.#queued.delete(review);
      void this.#perform(review);
    }
  }

  /** Never rejects. */
  async #perform(review: Review): Promise<void> {
    const { clock, metrics } = this.#ports;
    const beganAtMs = clock.now();
    this.#underWayCount++;
    let verdict: Verdict | undefined;
    let failure: unknown;
    try {
      verdict = await this.#reviewer(review.token, this.#stopping.signal);
    } catch (error) {
      failure = error;
    }
    this.#underWayCount--;
    if (this.#stopping.signal.aborted) return;
    const outcome = verdict === undefined ? "error" : verdict.accepted ? "accepted" : "rejected";
    metrics.reviewed(outcome, (clock.now() - beganAtMs) / 1000);
    if (verdict === undefined) this.#failed(review, failure);
    else this.#succeeded(review, verdict);
    this.#proceed();
  }

  #succeeded(review: Review, verdict: Verdict): void {
    if (this.#problem !== undefined) this.#ports.logger.info("token.reviewing");
    this.#problem = undefined;
    this.#backoff.reset();
    this.#finish(review, verdict);
  }

  #failed(review: Review, error: unknown): void {
    const { logger } = this.#ports;
    const reason = error instanceof Error ? error.message : String(error);
    const hint = apiErrorHint(error, "create tokenreviews (ClusterRole system:auth-delegator)");
    logger.warn("token.unreviewed", { error: reason, hint });
    if (!(error instanceof ApiError) || !error.isTemporary) {
      const text = `Failed to authenticate request. err: ${reason}`;
      this.#finish(review, rejected(invalidToken(text)));
      return;
    }
    // An apiserver that asks for patience works; it is asked as before once that is over.
    const isThrottling = error.status === 429;
    if (!isThrottling) this.#problem = reason;
    // Those that were under way together fail together, and count as one.
    if (!this.#bucket.isPaused) {
      const pauseMs = error.retryAfterMs ?? this.#backoff.next();
      this.#bucket.pause(Math.min(pauseMs, this.#options.timeoutMs));
    }
    if (review.waiters.size === 0) this.#reviews.delete(review.hash);
    else this.#again.add(review);
  }
}

const STOPPING: Verdict = undecided("the server is stopping");

function noReview(reason: string): Verdict {
  return undecided(invalidToken(`Failed to authenticate request. err: ${reason}`));
}
