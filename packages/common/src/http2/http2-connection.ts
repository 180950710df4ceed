import type { Socket } from "node:net";
import type { Clock } from "../clock.ts";
import type { HeaderList } from "../hpack/header-list.ts";
import { readBorrowed } from "../net/borrowed-read.ts";
import { goawayFrame, pingFrame } from "./frame.ts";
import type { Http2ConnectionHandler } from "./http2-connection-handler.ts";
import { Http2Error, Http2ErrorCode } from "./http2-error.ts";
import type { Http2Limits } from "./http2-limits.ts";
import type { Http2Stream, StreamHost } from "./http2-stream.ts";
import type { Http2StreamHandler } from "./http2-stream-handler.ts";
import { Inbox } from "./inbox.ts";
import { Outbox } from "./outbox.ts";
import type { OutboxOwner } from "./outbox.ts";
import { prefaceFrames } from "./preface.ts";
import { StreamTable } from "./stream-table.ts";

/** How long a socket may take to get rid of its last bytes after the connection has ended. */
const LINGER_MS = 5_000;

/**
 * One HTTP/2 connection (RFC 9113), client or server, on a connected socket that it owns from now
 * on. It knows nothing of gRPC.
 *
 * Here is its life, from the preface to the end of the socket. What the peer's frames do is up to
 * {@link Inbox}, how what is sent leaves to {@link Outbox}.
 */
export class Http2Connection implements StreamHost, OutboxOwner {
  readonly #socket: Socket;
  readonly #clock: Clock;
  readonly #handler: Http2ConnectionHandler;
  readonly #outbox: Outbox;
  readonly #streams: StreamTable;
  readonly #inbox: Inbox;
  #lastHeardMs: number;
  #isLingering = false;
  #closed = false;

  /**
   * @param reading - `owned`: whoever gets bytes of a stream may keep them, as parts of what the socket
   * allocates for each read; otherwise they are valid during the call only, and nothing is allocated.
   */
  constructor(
    socket: Socket,
    side: "client" | "server",
    limits: Http2Limits,
    clock: Clock,
    handler: Http2ConnectionHandler,
    reading: "borrowed" | "owned" = "borrowed",
  ) {
    this.#socket = socket;
    this.#clock = clock;
    this.#handler = handler;
    this.#lastHeardMs = clock.now();
    this.#outbox = new Outbox(socket, this);
    this.#streams = new StreamTable(side, limits, this.#outbox, this);
    this.#inbox = new Inbox(side, limits, this.#streams, this.#outbox, handler);
    for (const frame of prefaceFrames(side, limits)) this.#outbox.sendControl(frame);

    const read = (chunk: Buffer) => {
      this.#read(chunk);
    };
    if (reading === "owned") socket.on("data", read);
    else readBorrowed(socket, clock, read);
    socket.on("end", () => {
      this.#finish(undefined);
    });
    socket.on("error", (error) => {
      this.#finish(error);
    });
    socket.on("close", () => {
      this.#finish(undefined);
    });
    // A socket that failed on its way here has told its last listener already.
    if (socket.closed) {
      setImmediate(() => {
        this.#finish(socket.errored ?? undefined);
      });
    }
  }

  /** When the peer was last heard of, in the clock's milliseconds. */
  get lastHeardMs(): number {
    return this.#lastHeardMs;
  }

  get streamCount(): number {
    return this.#streams.size;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** Whether the peer has completed its half of the preface (RFC 9113 section 3.4). */
  get established(): boolean {
    return this.#inbox.settingsSeen;
  }

  /** Whether {@link request} may be called: not leaving, and below the peer's stream limit. */
  get canRequest(): boolean {
    return !this.#closed && this.#streams.canOpen;
  }

  /**
   * Send a request (clients only; see {@link canRequest}); the body follows through the stream.
   * Where the connection is over already, the stream is told so a moment later.
   */
  request(headers: HeaderList, handler: Http2StreamHandler): Http2Stream {
    const stream = this.#streams.open();
    stream.attach(handler);
    this.#outbox.sendHeaders(stream.id, headers, false);
    if (this.#closed) {
      setImmediate(() => {
        stream.connectionLost(undefined);
      });
    }
    return stream;
  }

  /** Ask the peer for a sign of life: its answer moves {@link lastHeardMs}. */
  ping(): void {
    this.#outbox.sendControl(pingFrame(Buffer.alloc(8), false));
  }

  /** Take no new streams, and end the connection once those that are open are over. Idempotent. */
  close(): void {
    if (this.#closed) return;
    if (!this.#streams.isLeaving) {
      this.#streams.leave();
      this.#outbox.sendControl(goawayFrame(this.#streams.lastPeerId, Http2ErrorCode.NO_ERROR, ""));
    }
    this.#endIfDone();
  }

  /** Tell the peer why and end the connection with all its streams at once. Idempotent. */
  abort(code: number, reason: string): void {
    if (this.#closed) return;
    this.#outbox.sendLast(goawayFrame(this.#streams.lastPeerId, code, reason));
    this.#boundLinger();
    this.#socket.end();
    this.#finish(code === Http2ErrorCode.NO_ERROR ? undefined : new Http2Error(code, reason));
  }

  /** End the connection without a word; `error` is why, for its streams. Idempotent. */
  destroy(error?: Error): void {
    this.#finish(error);
  }

  // StreamHost

  release(stream: Http2Stream): void {
    this.#streams.remove(stream);
    this.#outbox.forget(stream);
    this.#inbox.forget(stream);
    // Not here and now: the stream's last frame may not be written yet, nor its owner told.
    if (this.#streams.isLeaving) this.#outbox.schedule();
  }

  // OutboxOwner

  controlOverflowed(): void {
    this.#finish(new Http2Error(Http2ErrorCode.ENHANCE_YOUR_CALM, "the peer reads no answers"));
  }

  flushed(): void {
    this.#endIfDone();
  }

  // Receiving

  #read(chunk: Buffer): void {
    if (this.#closed) return;
    this.#lastHeardMs = this.#clock.now();
    try {
      this.#inbox.push(chunk);
    } catch (error) {
      if (error instanceof Http2Error) {
        this.abort(error.code, error.message);
        return;
      }
      // Thrown by whoever was told: the rest of the chunk is lost, so the next one would be read as something else.
      this.#socket.destroy();
      throw error;
    }
  }

  // Ending

  #endIfDone(): void {
    if (this.#closed || !this.#streams.isLeaving || this.#streams.size > 0) return;
    this.#boundLinger();
    if (this.#outbox.hasControl) return;
    this.#socket.end();
    this.#finish(undefined);
  }

  /** Let the last bytes leave before the socket goes, but not for ever. */
  #boundLinger(): void {
    if (this.#isLingering) return;
    this.#isLingering = true;
    const cancel = this.#clock.schedule(LINGER_MS, () => {
      this.#socket.destroy();
    });
    this.#socket.once("close", cancel);
  }

  #finish(error: Error | undefined): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#inbox.stop();
    this.#outbox.stop();
    this.#streams.connectionLost(error);
    // After end() the socket is destroyed once the last bytes have left; otherwise now.
    if (!this.#socket.writableEnded) this.#socket.destroy();
    this.#handler.closed(error);
  }
}
