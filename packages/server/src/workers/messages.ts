import type { ReviewedToken } from "../authentication/verdict.ts";
import type { AgentIdentifiers, LogEvent, LogFields } from "@reachback/common";
import type { ServerState } from "../server.ts";
import type { ServerOptions } from "../options.ts";

// What the primary and its workers say to each other, by Node's channel between processes, which
// copies values as `structuredClone` does.

/** A worker's agents come, drain and go: one tunnel each, by a number of the worker's own. */
export type TunnelChange =
  | {
      readonly type: "opened";
      readonly tunnel: number;
      readonly agentId: string;
      readonly identifiers: AgentIdentifiers;
    }
  | { readonly type: "draining"; readonly tunnel: number }
  | { readonly type: "retired"; readonly tunnel: number };

export type ToWorker =
  /** The first message. */
  | {
      readonly type: "start";
      /** From 1. */
      readonly slot: number;
      readonly options: ServerOptions;
      /** Where the workers' sockets are, see {@link handInPath}. */
      readonly folder: string;
      readonly version: string;
      readonly debugEnabled: boolean;
    }
  /** A socket comes with it, for the listener of that index: frontends first, agents last. */
  | { readonly type: "socket"; readonly listener: number }
  | { readonly type: "neighbour"; readonly slot: number; readonly changes: readonly TunnelChange[] }
  | { readonly type: "neighbour-gone"; readonly slot: number }
  /** Another worker has had an agent's token reviewed. */
  | { readonly type: "token-reviewed"; readonly reviewed: ReviewedToken }
  /** To be answered with a {@link WorkerReport}. */
  | { readonly type: "report"; readonly request: number }
  /** A request below `/debug/pprof/`, to be answered with a {@link ProfileAnswer}. */
  | {
      readonly type: "profile";
      readonly request: number;
      readonly path: string;
      readonly rawQuery: string;
    }
  /**
   * The steps of a stop, see `Server`. Once the first two are taken, the worker says `held` and answers;
   * from then on it says `held` whenever a connection or a dial ends.
   */
  | { readonly type: "leave"; readonly request: number }
  | { readonly type: "accept-no-more"; readonly request: number }
  | { readonly type: "end" };

export type FromWorker =
  | { readonly type: "started" }
  | { readonly type: "failed"; readonly message: string }
  | { readonly type: "tunnel"; readonly change: TunnelChange }
  | { readonly type: "token-reviewed"; readonly reviewed: ReviewedToken }
  | { readonly type: "held"; readonly count: number }
  | { readonly type: "answer"; readonly request: number; readonly value: unknown }
  | {
      readonly type: "log";
      readonly level: "debug" | "info" | "warn" | "error";
      readonly event: LogEvent;
      readonly fields: LogFields;
      /** Of an error line. */
      readonly error?: LoggedError | undefined;
    };

/** What is copied of an error, which would lose its code. */
export interface LoggedError {
  readonly message: string;
  readonly stack: string | undefined;
  readonly code: string | undefined;
}

export interface WorkerReport {
  readonly state: ServerState;
  /** The worker's clock, to tell the age of what is in `state`. */
  readonly nowMs: number;
  readonly process: readonly object[];
}

export interface ProfileAnswer {
  readonly status: number;
  readonly body: string | Buffer;
  readonly headers: Readonly<Record<string, string>>;
}
