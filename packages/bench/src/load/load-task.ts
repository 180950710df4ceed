import type { LatencySummary } from "./latency-recorder.ts";
import type { Route } from "./route.ts";

export type Direction = "download" | "upload";

/** What a load process can be asked to do: how it is described, and what comes out. */
export interface LoadTasks {
  /** As many bytes as fast as possible, over some connections at once. */
  bulk: {
    spec: {
      readonly route: Route;
      readonly direction: Direction;
      readonly connections: number;
      /** All connections together. */
      readonly byteCount: number;
      /** When to stop, finished or not. */
      readonly limitMs: number;
    };
    result: { readonly byteCount: number; readonly seconds: number };
  };

  /** 64 bytes there and back, on each connection again and again. */
  echo: {
    spec: {
      readonly route: Route;
      readonly connections: number;
      readonly durationMs: number;
      /** Between an answer and the next question, on each connection. */
      readonly pauseMs: number;
    };
    result: LatencySummary & {
      readonly count: number;
      /** Until the last answer: what has been asked in time is waited for. */
      readonly seconds: number;
      /** Connections that were lost, or had no answer long after the end. */
      readonly failed: number;
    };
  };

  /** New connections: dial, some bytes each way, close. */
  dials: {
    spec: {
      readonly route: Route;
      /** How many are under way at any time. */
      readonly parallel: number;
      readonly durationMs: number;
      readonly pauseMs: number;
      /** Each way, on each connection. */
      readonly byteCount: number;
      /** For one of them as a whole. */
      readonly timeoutMs: number;
    };
    result: LatencySummary & {
      readonly count: number;
      /** Until the end of the last: what has been dialed in time is waited for. */
      readonly seconds: number;
      readonly failed: number;
      /** Why the first that failed did. */
      readonly firstFailure: string;
    };
  };

  /** Connections that have been used once and then stay open. */
  idle: {
    spec: { readonly route: Route; readonly connections: number };
    /** How many of them are open still. */
    result: { readonly open: number };
  };

  /**
   * A connection on which much is sent and nothing read: by this process if it is a download, by the
   * endpoint if it is an upload.
   */
  stall: {
    spec: { readonly route: Route; readonly direction: Direction };
    /** Resolves once nothing moves any more. */
    result: { readonly isOpen: boolean };
  };
}

export type TaskKind = keyof LoadTasks;
export type TaskSpec<Kind extends TaskKind> = LoadTasks[Kind]["spec"];
export type TaskResult<Kind extends TaskKind> = LoadTasks[Kind]["result"];

/** A task whose connections are open. */
export interface OpenTask<Result> {
  run(): Promise<Result>;
  close(): void;
}

/** What a load process answers to. */
export interface LoadCommands {
  /** Open the connections of a task; returns its number. */
  open(request: { kind: TaskKind; spec: TaskSpec<TaskKind> }): Promise<number>;
  run(taskId: number): Promise<TaskResult<TaskKind>>;
  close(taskId: number): void;
}
