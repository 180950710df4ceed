import { Histogram, LabelledCounter, unlabelled } from "@reachback/common";
import type { MetricRegistry } from "@reachback/common";

/** How a review ended; `error`: there was no answer, or not to the question. */
export type ReviewOutcome = "accepted" | "rejected" | "error";

/** Why an agent went without a verdict. */
export type TurnedAwayReason = "queue_full" | "timeout";

const OWN = "reachback_server_";
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** What is counted of agents' tokens; upstream counts none of it. */
export class AuthenticationMetrics {
  readonly #reviews = new LabelledCounter(["outcome"]);
  readonly #reviewSeconds = new Histogram(BOUNDS);
  readonly #turnedAway = new LabelledCounter(["reason"]);
  readonly #remembered = new LabelledCounter(["outcome"]);

  /** @param waiting - How many agents wait for a review now. */
  constructor(registry: MetricRegistry, waiting: () => number) {
    registry.add({
      name: `${OWN}token_reviews_total`,
      help: "TokenReview requests, by outcome: accepted, rejected, or error for those without a usable answer.",
      type: "counter",
      collect: () => this.#reviews.series(),
    });
    registry.add({
      name: `${OWN}token_review_duration_seconds`,
      help: "Time of TokenReview requests, without the time spent in the queue.",
      type: "histogram",
      collect: () => this.#reviewSeconds.series(),
    });
    registry.add({
      name: `${OWN}token_verdicts_remembered_total`,
      help: "Agents that were answered by an earlier review of their token, by outcome.",
      type: "counter",
      collect: () => this.#remembered.series(),
    });
    registry.add({
      name: `${OWN}token_review_turned_away_total`,
      help: "Agents that got no review, by reason: queue_full or timeout.",
      type: "counter",
      collect: () => this.#turnedAway.series(),
    });
    registry.add({
      name: `${OWN}token_review_waiting`,
      help: "Agents that wait for a review of their token.",
      type: "gauge",
      collect: () => unlabelled(waiting()),
    });
  }

  reviewed(outcome: ReviewOutcome, durationSeconds: number): void {
    this.#reviews.increment({ outcome });
    this.#reviewSeconds.observe(durationSeconds);
  }

  remembered(outcome: Exclude<ReviewOutcome, "error">): void {
    this.#remembered.increment({ outcome });
  }

  agentTurnedAway(reason: TurnedAwayReason): void {
    this.#turnedAway.increment({ reason });
  }
}
