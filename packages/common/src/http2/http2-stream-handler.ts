import type { HeaderList } from "../hpack/header-list.ts";

/**
 * Why a stream is over.
 *
 * - `finished`: both ends sent END_STREAM.
 * - `reset`: RST_STREAM, by the peer (`byPeer`) or by us.
 * - `connection`: the connection ended under it; `error` says why if it was not an orderly close.
 */
export type StreamClose =
  | { readonly kind: "finished" }
  | { readonly kind: "reset"; readonly code: number; readonly byPeer: boolean }
  | { readonly kind: "connection"; readonly error: Error | undefined };

/** What the owner of a stream is told. After `closed` nothing more comes. */
export interface Http2StreamHandler {
  /** Response headers, then trailers (`endStream`). On a server: trailers of the request. */
  headers(headers: HeaderList, endStream: boolean): void;

  /**
   * The next bytes of the body, which are valid during the call only, unless the connection reads what it
   * owns. The owner calls `Http2Stream.consumed` for them, now or later: until then they count against
   * the window.
   */
  data(piece: Buffer): void;

  /** The peer has finished sending. */
  ended(): void;

  /** Some of what was written has been handed to the socket; see `Http2Stream.queuedBytes`. */
  sent(): void;

  /** There is room again after `Http2Stream.write` returned false. */
  drained(): void;

  /** The stream is over. Called exactly once. */
  closed(reason: StreamClose): void;
}
