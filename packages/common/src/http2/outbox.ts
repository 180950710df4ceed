import type { Socket } from "node:net";
import { HpackEncoder } from "../hpack/hpack-encoder.ts";
import type { HeaderList } from "../hpack/header-list.ts";
import { isTcp } from "../net/is-tcp.ts";
import { writeTogether } from "../net/write-together.ts";
import { PIECE_BYTES } from "../piece-bytes.ts";
import {
  DEFAULT_MAX_FRAME_BYTES,
  DEFAULT_WINDOW_BYTES,
  MAX_WINDOW_BYTES,
  headersFrames,
} from "./frame.ts";

export interface OutboxOwner {
  /** More control frames wait than a peer that reads can bring about: end the connection. */
  controlOverflowed(): void;

  /** What there was to write has been given to the socket. */
  flushed(): void;
}

/** What is asked of a stream that sends: see `Http2Stream`. */
export interface SendingStream {
  /**
   * What {@link fill} would do: send `data`, send the `end`, nothing until the peer opens the
   * stream's `window`, or `nothing` at all.
   */
  readonly wants: "data" | "end" | "window" | "nothing";

  /**
   * How many bytes the next DATA frame takes, with so many left of the connection's window. To be asked
   * only if there is data to send.
   */
  nextFrameBytes(windowBytes: number): number;

  /**
   * Append the next frame to `out`: DATA of as many bytes as {@link nextFrameBytes} said, or of none, or
   * what ends the stream; only if it {@link wants} to.
   */
  fill(out: Buffer[], bytes: number): void;

  /** What it has filled in has been handed to the socket. */
  notifySent(): void;
}

/**
 * Largest DATA frame that we send, whatever the peer takes: a piece with the head of its packet. Streams
 * take turns frame by frame.
 */
const MAX_SENT_FRAME_BYTES = PIECE_BYTES + 512;

/** Most bytes of DATA handed to the socket in one write. */
const MAX_BATCH_BYTES = 256 * 1024;

/**
 * The same over TCP: two segments of the kernel's, see {@link PIECE_BYTES}. Where TCP is paced, larger ones cost
 * a seventh more CPU; where it is not, one segment at a time costs a tenth more with eight connections.
 */
const MAX_TCP_BATCH_BYTES = MAX_SENT_FRAME_BYTES;

/**
 * Control frames that may wait for a peer that does not read. A peer that makes us owe it more
 * (answers to PING and SETTINGS, RST_STREAM) is flooding us (CVE-2019-9512, -9514, -9515).
 */
const MAX_CONTROL_BYTES = 1024 * 1024;

/**
 * Everything that a connection sends: control frames ahead of DATA, one DATA frame from each stream
 * in turn, within the connection's window. What is sent within one turn of the event loop leaves in
 * one write, and no more is taken from the streams than the socket takes.
 */
export class Outbox {
  readonly #socket: Socket;
  readonly #owner: OutboxOwner;

  readonly #maxBatchBytes: number;

  readonly #encoder = new HpackEncoder();
  #maxFrameBytes = DEFAULT_MAX_FRAME_BYTES;
  #control: Buffer[] = [];
  #controlBytes = 0;
  /** Streams with something to send, in the order of their turns. */
  readonly #sending = new Set<SendingStream>();
  /** What the peer still takes of DATA on this connection (RFC 9113 section 6.9.1). */
  #windowBytes = DEFAULT_WINDOW_BYTES;
  #flushScheduled = false;
  /** Whether the socket has not taken what was written last. */
  #isWriting = false;
  #stopped = false;

  constructor(socket: Socket, owner: OutboxOwner) {
    this.#socket = socket;
    this.#owner = owner;
    this.#maxBatchBytes = isTcp(socket) ? MAX_TCP_BATCH_BYTES : MAX_BATCH_BYTES;
  }

  get hasControl(): boolean {
    return this.#control.length > 0;
  }

  /** Largest frame that we send, in bytes of payload. */
  get maxFrameBytes(): number {
    return this.#maxFrameBytes;
  }

  /** Largest frame that the peer takes (SETTINGS_MAX_FRAME_SIZE). */
  setPeerMaxFrameBytes(bytes: number): void {
    this.#maxFrameBytes = Math.min(bytes, MAX_SENT_FRAME_BYTES);
  }

  /** Largest dynamic table of header fields that the peer keeps (SETTINGS_HEADER_TABLE_SIZE). */
  setPeerHeaderTableBytes(bytes: number): void {
    this.#encoder.setMaxTableBytes(bytes);
  }

  /** Send a frame ahead of all DATA. */
  sendControl(frame: Buffer): void {
    if (this.#stopped) return;
    this.#control.push(frame);
    this.#controlBytes += frame.length;
    if (this.#controlBytes > MAX_CONTROL_BYTES) this.#owner.controlOverflowed();
    this.schedule();
  }

  /** Send a header block ahead of all DATA, behind those that were sent before. */
  sendHeaders(streamId: number, headers: HeaderList, endStream: boolean): void {
    const block = this.#encoder.encode(headers);
    for (const frame of headersFrames(streamId, block, endStream, this.#maxFrameBytes)) {
      this.sendControl(frame);
    }
  }

  /** Write the control frames that wait, and `frame` as the last one, whatever the socket takes. */
  sendLast(frame: Buffer): void {
    if (this.#stopped) return;
    writeTogether(this.#socket, [...this.#control, frame]);
    this.stop();
  }

  /** A frame is asked of `stream` when it is its turn. */
  wantsToSend(stream: SendingStream): void {
    this.#sending.add(stream);
    this.schedule();
  }

  /** `stream` is over: nothing more is asked of it. */
  forget(stream: SendingStream): void {
    this.#sending.delete(stream);
  }

  /** The peer takes so many bytes more. False if that is more than a window can be. */
  growWindow(bytes: number): boolean {
    this.#windowBytes += bytes;
    if (this.#windowBytes > MAX_WINDOW_BYTES) return false;
    if (this.#sending.size > 0) this.schedule();
    return true;
  }

  /** Write at the end of this turn of the event loop. */
  schedule(): void {
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    // After the poll phase: what all sockets delivered in this turn of the loop leaves together.
    setImmediate(() => {
      this.#flushScheduled = false;
      this.#flush();
    });
  }

  /** Write now, unless the socket has not taken the last batch: then everything waits here. */
  #flush(): void {
    if (this.#stopped || this.#isWriting) return;
    if (this.hasControl || this.#sending.size > 0) {
      const out = this.#control;
      this.#control = [];
      this.#controlBytes = 0;
      const served = this.#fillFromStreams(out);
      // A stream that came to its end may have ended the connection with it.
      if (this.#isStopped()) return;
      this.#isWriting = writeTogether(this.#socket, out, this.#written) !== "taken";
      for (const stream of served) stream.notifySent();
      if (this.#windowBytes > 0 && this.#sending.size > 0) this.schedule();
    }
    this.#owner.flushed();
  }

  readonly #written = (error?: Error | null): void => {
    // After a failure the socket's end follows.
    if (error instanceof Error) return;
    this.#isWriting = false;
    this.#flush();
  };

  /** Write nothing more; what waits is dropped. */
  stop(): void {
    this.#stopped = true;
    this.#control = [];
    this.#sending.clear();
  }

  /** Read anew: the compiler believes that calls in between have left it alone. */
  #isStopped(): boolean {
    return this.#stopped;
  }

  /**
   * One frame from each stream in turn, until the next one does not fit into the batch or nobody can send.
   * None is cut to fit: the rest of it would be in front of the next frame, which would be cut for that.
   */
  #fillFromStreams(out: Buffer[]): Set<SendingStream> {
    const served = new Set<SendingStream>();
    let roomBytes = this.#maxBatchBytes;
    /** Streams in a row that wait for the connection's window: once all do, nothing can go. */
    let waiting = 0;
    // A Set's iterator also comes to what is added behind it, so this goes round and round.
    for (const stream of this.#sending) {
      if (waiting >= this.#sending.size) break;
      const wants = stream.wants;
      const bytes = wants === "data" ? stream.nextFrameBytes(this.#windowBytes) : 0;
      if (bytes > roomBytes) break;
      this.#sending.delete(stream);
      // A stream without a window of its own comes back when the peer opens it.
      if (wants === "nothing" || wants === "window") continue;
      if (wants === "data" && bytes === 0) {
        this.#sending.add(stream);
        waiting++;
        continue;
      }
      stream.fill(out, bytes);
      this.#windowBytes -= bytes;
      roomBytes -= bytes;
      waiting = 0;
      served.add(stream);
      if (stream.wants === "data" || stream.wants === "end") this.#sending.add(stream);
    }
    return served;
  }
}
