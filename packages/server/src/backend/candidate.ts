import type { AgentIdentifiers } from "@reachback/common";
import type { Connection } from "../dial/connection.ts";

/**
 * Who is chosen first: `sound` before `draining` (the agent has asked for that) before `failing` (it
 * does not answer dials).
 */
export type Standing = "sound" | "draining" | "failing";

/** Whoever may be chosen for a dial: an agent with a tunnel here, or one that a neighbour has. */
export interface Candidate {
  readonly agentId: string;
  readonly identifiers: AgentIdentifiers;
  readonly standing: Standing;
  /** How busy it is, in dials. */
  readonly load: number;
  readonly ageMs: number;
  /** The registry's count of choices when this one was last chosen. */
  lastChosen: number;
  /** Whether nothing was heard from it since a newer tunnel of the agent came. */
  readonly isSilent: boolean;
  /** A newer tunnel of the agent is there: this one has to say something to stay preferred. */
  listen(): void;

  /** Connections and pending dials. */
  readonly heldCount: number;
  /** Ask for a connection. */
  dial(connection: Connection): void;
  /** A dial that was asked for at `askedAtMs` has no answer. */
  dialUnanswered(askedAtMs: number): void;
}
