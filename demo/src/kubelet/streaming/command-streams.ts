import type { Readable, Writable } from "node:stream";
import type { Status } from "../../cluster/status.ts";

/** Which streams a client of exec or attach wants, from the kubelet's query parameters. */
export interface StreamChoice {
  readonly stdin: boolean;
  readonly stdout: boolean;
  /** Never with `tty`. */
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** The streams between a client and a command, however they are carried. */
export interface CommandStreams {
  readonly stdin: Readable | undefined;
  readonly stdout: Writable | undefined;
  readonly stderr: Writable | undefined;
  /** Sizes of the client's terminal: lines of JSON. */
  readonly resize: Readable | undefined;
  /** Resolves when the client is gone, or all was said. */
  readonly closed: Promise<unknown>;
  /** Say how it ended, behind all output, and end the connection. */
  finish(status: Status): void;
}

export function streamChoice(query: URLSearchParams): StreamChoice {
  const has = (name: string) => ["1", "true"].includes(query.get(name) ?? "");
  const tty = has("tty");
  return { stdin: has("input"), stdout: has("output"), stderr: has("error") && !tty, tty };
}
