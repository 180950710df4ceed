import type { Readable } from "node:stream";

/** A request as a handler sees it. Its body is not read. */
export interface OpsRequest {
  readonly method: string;

  /** Decoded, without `//` and `..`. */
  readonly path: string;

  /** Behind the `?`, as it was sent. */
  readonly rawQuery: string;
  readonly query: URLSearchParams;

  /** Whom the client believes to talk to: host and, if it said one, port. */
  readonly host: string;
  readonly acceptEncoding: string;

  /** Aborted when the client leaves or the listener closes; the answer is not wanted then. */
  readonly signal: AbortSignal;
}

export interface OpsResponse {
  readonly status: number;

  /** A stream is sent in chunks; it is destroyed if the client leaves. */
  readonly body: string | Buffer | Readable;

  /** Without a `Content-Type` here a body is plain text. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Answers every method alike, as upstream's do. */
export type OpsHandler = (request: OpsRequest) => OpsResponse | Promise<OpsResponse>;

export interface OpsRoute {
  /** Exact; one that ends in `/` also serves everything below it that has no route of its own. */
  readonly path: string;
  readonly handler: OpsHandler;
}
