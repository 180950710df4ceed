import type { HeaderList } from "../hpack/header-list.ts";
import type { Http2Stream } from "./http2-stream.ts";
import type { Http2StreamHandler } from "./http2-stream-handler.ts";

/** What the owner of a connection is told. After `closed` nothing more comes. */
export interface Http2ConnectionHandler {
  /**
   * A request began (servers only). The handler returned is told what follows; `endStream` says
   * that nothing does. May call methods of `stream` at once.
   */
  request(stream: Http2Stream, headers: HeaderList, endStream: boolean): Http2StreamHandler;

  /** The peer takes no new streams. */
  goaway(code: number, debug: string): void;

  /** The connection is over, every stream has been told. Called exactly once. */
  closed(error: Error | undefined): void;
}
