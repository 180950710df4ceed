import type { ConnectionId, DialId } from "@reachback/common";
import type { CloseReason } from "./close-reason.ts";

/** What a frontend asks for. */
export interface DialRequest {
  /** The id that the frontend knows the dial by. */
  readonly dialId: DialId;
  readonly protocol: string;
  /** `host:port`, passed on as it came. */
  readonly address: string;
}

/** Why a dial did not become a connection. */
export type DialFailure =
  /** No agent can take it. */
  | { readonly kind: "noAgent" }
  /** As many dials or connections as there may be; `error` says which limit it is. */
  | { readonly kind: "limit"; readonly error: string }
  /** The agent could not reach the endpoint; `error` is its text, in Go's words. */
  | { readonly kind: "refused"; readonly error: string }
  /** The agent's tunnel ended before it answered. */
  | { readonly kind: "agentLost" }
  /** The deadline passed before it answered. */
  | { readonly kind: "timeout" }
  /** The agent dropped the dial without an answer (DIAL_CLS). */
  | { readonly kind: "dropped" };

/**
 * A frontend's end of one connection: where its bytes go and what it is told. It belongs to one
 * dial, and to the connection that the dial becomes.
 */
export interface FrontendEnd {
  /** The endpoint is reached. Comes before any data. */
  dialed(connectionId: ConnectionId): void;

  /** The dial failed. Nothing else comes. */
  dialFailed(failure: DialFailure): void;

  /** Take bytes from the endpoint; `Connection.taken` says when they have gone on. */
  receive(piece: Buffer): void;

  /** Say now with `Connection.taken` what has gone on in part, if that is known. */
  reportTaken(): void;

  /**
   * The endpoint has finished sending, behind all that came. False where the frontend cannot be told
   * that: then the connection is closed.
   */
  finish(): boolean;

  /** The agent takes bytes again after `Connection.send` returned false. */
  agentReady(): void;

  /**
   * The connection is over, behind all its data. Comes once, whoever ended it.
   *
   * @param error - What went wrong, in the agent's words if they are known; empty after an orderly
   * end.
   */
  closed(reason: CloseReason, error: string): void;
}
