import { createHash } from "node:crypto";
import type {
  Clock,
  HeaderList,
  KubernetesClient,
  Logger,
  MetricRegistry,
  Random,
} from "@reachback/common";
import { AuthenticationMetrics } from "./authentication-metrics.ts";
import { BearerTokenError, bearerTokenFrom } from "./bearer-token.ts";
import { ReviewQueue } from "./review-queue.ts";
import type { PendingVerdict, ReviewQueueOptions } from "./review-queue.ts";
import { TOKEN_REVIEW_PATH, tokenExpiryMs, tokenReview, verdictFrom } from "./token-review.ts";
import type { ExpectedAgent } from "./token-review.ts";
import { VerdictCache } from "./verdict-cache.ts";
import type { ReviewedToken, Verdict } from "./verdict.ts";
import { rejected } from "./verdict.ts";

export interface TokenAuthenticationOptions extends ExpectedAgent, ReviewQueueOptions {
  /** How long an accepted token is not reviewed again, at most; 0 for not at all. */
  readonly cacheTtlMs: number;
}

export interface TokenAuthenticatorPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly kubernetes: Pick<KubernetesClient, "request">;
  readonly metricRegistry: MetricRegistry;
  /** Told of each review, for others who {@link TokenAuthenticator.learn} from it. */
  readonly tokenReviewed?: ((reviewed: ReviewedToken) => void) | undefined;
}

/** For one answer; a review without one is asked for again while an agent waits for it. */
const REVIEW_TIMEOUT_MS = 10_000;

/** Admits agents by the token of their service account, which the apiserver reviews. */
export class TokenAuthenticator {
  readonly #cache: VerdictCache;
  readonly #queue: ReviewQueue;
  readonly #metrics: AuthenticationMetrics;
  readonly #options: TokenAuthenticationOptions;
  readonly #ports: TokenAuthenticatorPorts;

  constructor(options: TokenAuthenticationOptions, ports: TokenAuthenticatorPorts) {
    this.#options = options;
    this.#ports = ports;
    this.#cache = new VerdictCache(options.cacheTtlMs, ports.clock);
    this.#metrics = new AuthenticationMetrics(ports.metricRegistry, () => this.#queue.waitingCount);
    this.#queue = new ReviewQueue(options, (token, signal) => this.#review(token, signal), {
      ...ports,
      metrics: this.#metrics,
    });
  }

  /** Whether the agent that calls with this metadata may come in: a verdict, or one to wait for. */
  authenticate(metadata: HeaderList): Verdict | PendingVerdict {
    let token: string;
    try {
      token = bearerTokenFrom(metadata);
    } catch (error) {
      if (!(error instanceof BearerTokenError)) throw error;
      return rejected(error.message);
    }
    const hash = hashOf(token);
    const known = this.#cache.get(hash);
    if (known === undefined) return this.#queue.add(hash, token);
    this.#metrics.remembered(known.accepted ? "accepted" : "rejected");
    return known;
  }

  /** Somebody else has had a token reviewed. */
  learn(reviewed: ReviewedToken): void {
    this.#cache.add(reviewed);
    this.#queue.learn(reviewed);
  }

  /** Turn away all agents that wait, and those to come. */
  stop(): void {
    this.#queue.stop();
  }

  async #review(token: string, signal: AbortSignal): Promise<Verdict> {
    const answer = await this.#ports.kubernetes.request({
      method: "POST",
      path: TOKEN_REVIEW_PATH,
      body: tokenReview(token, this.#options),
      timeoutMs: REVIEW_TIMEOUT_MS,
      signal,
    });
    const verdict = verdictFrom(answer, this.#options);
    const reviewed = { hash: hashOf(token), verdict, expiresAtMs: tokenExpiryMs(token) };
    this.#cache.add(reviewed);
    this.#ports.tokenReviewed?.(reviewed);
    return verdict;
  }
}

/** Tokens themselves are not kept any longer than a review takes. */
function hashOf(token: string): string {
  return createHash("sha256").update(token).digest("base64");
}
