import { DEFAULT_WINDOW_BYTES, MAX_STREAM_ID } from "./frame.ts";
import { Http2Error, Http2ErrorCode } from "./http2-error.ts";
import type { Http2Limits } from "./http2-limits.ts";
import { Http2Stream } from "./http2-stream.ts";
import type { StreamHost } from "./http2-stream.ts";
import type { Outbox } from "./outbox.ts";

/**
 * The streams of one connection that are not over: what their ids say (RFC 9113 section 5.1.1), and
 * whether there may be more of them.
 */
export class StreamTable {
  readonly #side: "client" | "server";
  readonly #limits: Http2Limits;
  readonly #outbox: Outbox;
  readonly #host: StreamHost;

  readonly #streams = new Map<number, Http2Stream>();
  #nextOwnId = 1;
  #lastPeerId = 0;
  #leaving = false;

  #peerLeaving = false;
  #peerMaxStreams = Number.POSITIVE_INFINITY;
  #initialSendWindowBytes = DEFAULT_WINDOW_BYTES;

  constructor(side: "client" | "server", limits: Http2Limits, outbox: Outbox, host: StreamHost) {
    this.#side = side;
    this.#limits = limits;
    this.#outbox = outbox;
    this.#host = host;
  }

  get size(): number {
    return this.#streams.size;
  }

  /** The newest stream that the peer has begun: what GOAWAY says. 0 if there was none. */
  get lastPeerId(): number {
    return this.#lastPeerId;
  }

  /** Whether {@link leave} was called. */
  get isLeaving(): boolean {
    return this.#leaving;
  }

  /** The stream of an id; `undefined` if it is over, or never began. */
  get(streamId: number): Http2Stream | undefined {
    return this.#streams.get(streamId);
  }

  /**
   * The stream of a frame that may come only once the stream has begun; `undefined` if it is over.
   *
   * @param frame - The frame's name.
   * @throws {Http2Error} It never began.
   */
  begun(streamId: number, frame: string): Http2Stream | undefined {
    const stream = this.#streams.get(streamId);
    if (stream === undefined && this.isIdle(streamId)) {
      throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, `${frame} on a stream that never began`);
    }
    return stream;
  }

  /** Whether the stream has not begun. 0, which is no stream, counts as begun. */
  isIdle(streamId: number): boolean {
    return streamId >= (this.#isOwn(streamId) ? this.#nextOwnId : this.#lastPeerId + 1);
  }

  /** Whether {@link open} may be called: nobody is leaving, and the peer takes one more. */
  get canOpen(): boolean {
    return (
      !this.#leaving &&
      !this.#peerLeaving &&
      this.#streams.size < this.#peerMaxStreams &&
      this.#nextOwnId <= MAX_STREAM_ID
    );
  }

  /** Begin a stream of ours (clients only). */
  open(): Http2Stream {
    const stream = this.#add(this.#nextOwnId);
    this.#nextOwnId += 2;
    return stream;
  }

  /**
   * Note that the peer has begun a stream; those with lower ids are no longer idle either. Returns
   * whether it may have it: not if we are leaving, nor beyond {@link Http2Limits.maxStreams}.
   */
  peerBegan(streamId: number): boolean {
    this.#lastPeerId = streamId;
    return !this.#leaving && this.#streams.size < this.#limits.maxStreams;
  }

  /** Keep a stream of the peer, for which {@link peerBegan} has said yes. */
  accept(streamId: number): Http2Stream {
    return this.#add(streamId);
  }

  remove(stream: Http2Stream): void {
    this.#streams.delete(stream.id);
  }

  /** Take no new streams, neither ours nor the peer's. */
  leave(): void {
    this.#leaving = true;
  }

  /** The peer takes no new streams, and of ours none above `lastStreamId`. */
  peerLeaves(lastStreamId: number): void {
    this.#peerLeaving = true;
    for (const stream of this.#streams.values()) {
      if (this.#isOwn(stream.id) && stream.id > lastStreamId) {
        stream.receiveReset(Http2ErrorCode.REFUSED_STREAM);
      }
    }
  }

  /** Streams that the peer lets us have open at a time. */
  setPeerMaxStreams(streams: number): void {
    this.#peerMaxStreams = streams;
  }

  /**
   * What the peer takes of each stream at first; those that are open gain or lose the difference.
   *
   * @throws {Http2Error} That is more than the window of one of them can be.
   */
  setInitialSendWindow(bytes: number): void {
    const growthBytes = bytes - this.#initialSendWindowBytes;
    this.#initialSendWindowBytes = bytes;
    for (const stream of this.#streams.values()) {
      if (!stream.growSendWindow(growthBytes)) {
        throw new Http2Error(Http2ErrorCode.FLOW_CONTROL_ERROR, "stream window overflow");
      }
    }
  }

  /** The connection has ended under all of them. */
  connectionLost(error: Error | undefined): void {
    for (const stream of [...this.#streams.values()]) stream.connectionLost(error);
  }

  /** Clients begin odd streams; servers would begin even ones, and never do. */
  #isOwn(streamId: number): boolean {
    return (streamId % 2 === 1) === (this.#side === "client");
  }

  #add(streamId: number): Http2Stream {
    const stream = new Http2Stream(
      streamId,
      this.#side,
      this.#limits,
      this.#initialSendWindowBytes,
      this.#outbox,
      this.#host,
    );
    this.#streams.set(streamId, stream);
    return stream;
  }
}
