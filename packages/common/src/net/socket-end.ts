import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { CancelTimer, Clock } from "../clock.ts";
import { PIECE_BYTES } from "../piece-bytes.ts";
import { SendQueue } from "../send-queue.ts";
import { readBorrowed } from "./borrowed-read.ts";
import { waitingBytes } from "./direct-write.ts";
import { endedByReset, peerHasGone, resetSocket } from "./socket-reset.ts";
import { writeTogether } from "./write-together.ts";

/** What the owner of a {@link SocketEnd} is told. */
export interface SocketEndHandler {
  /** The next bytes from the peer, which are valid during the call only. */
  data(piece: Buffer): void;

  /**
   * The peer has finished sending, in an orderly way. Does not come where it is known that nobody
   * reads any more either: then `closed` does, without an error.
   */
  ended(): void;

  /** The system has taken so many bytes of what was written; also from within {@link SocketEnd.write}. */
  taken(bytes: number): void;

  /**
   * The socket is gone; `error` says why if that was not an orderly end. Called exactly once, also
   * after {@link SocketEnd.reset}.
   */
  closed(error: Error | undefined): void;
}

export interface SocketEndLimits {
  /**
   * How long {@link SocketEnd.close} waits without any progress, in milliseconds: for the peer to
   * take what is queued, and then for it to finish as well.
   */
  readonly closeStallMs: number;
}

/** What is read of a peer that has to wait before it is not read at all. */
const READ_AHEAD_BYTES = 16 * 1024;

/**
 * Bytes given to the socket at a time: two pieces, which save the peer wake-ups and us a twentieth of the CPU
 * of eight uploads. What was taken later is told when all of them have been, so a peer that is slow gets few.
 * So does any with TLS, where nothing is known before, nor whether the system had room.
 */
const BATCH_BYTES = 2 * PIECE_BYTES;
const SLOW_BATCH_BYTES = PIECE_BYTES / 2;

/** A peer is slow while it does not make room within this time for a batch that the system had no room for. */
const SLOW_TAKE_MS = 10;

/**
 * A piece of this size is likely to be followed by more in the same turn of the event loop: TLS
 * delivers what it decrypts in records of 16 KiB, up to 2 MiB of them in one turn. What is smaller
 * is written at once.
 */
const GATHER_FROM_BYTES = 8 * 1024;

/**
 * How long the system may take to send what it has taken before the socket is reset behind it: a
 * reset throws away what has not left, and nobody can ask whether there is such.
 */
const RESET_GRACE_MS = 100;

/** The peer reset the connection, but libuv called it an end. */
class HiddenResetError extends Error {
  readonly code = "ECONNRESET";

  constructor() {
    super("read ECONNRESET");
  }
}

/**
 * One end of a proxied connection that is a socket: the agent's to the endpoint, the server's to a
 * CONNECT client. Bytes in order, an end that comes behind everything written, and a reset that is
 * told from an end. How much may wait here is up to whoever writes, who is told what was taken.
 */
export class SocketEnd {
  readonly #socket: Socket;
  readonly #limits: SocketEndLimits;
  readonly #clock: Clock;
  readonly #handler: SocketEndHandler;

  readonly #queue = new SendQueue();
  #inFlightBytes = 0;
  #batchBytes: number;
  /** When the batch in flight was given to the socket, if that has no room for it. */
  #waitsSinceMs: number | undefined;
  #isFlushScheduled = false;
  /** Whether the owner wants nothing more for now; and what came since it said so. */
  #isPaused = false;
  #readAheadBytes = 0;
  /** Nothing more will be written, but the peer may go on. */
  #isFinishing = false;
  #state: "open" | "closing" | "resetting" | "closed" = "open";
  #error: Error | undefined;
  #flushed: ((complete: boolean) => void) | undefined;
  #cancelStallTimer: CancelTimer | undefined;

  constructor(socket: Socket, limits: SocketEndLimits, clock: Clock, handler: SocketEndHandler) {
    this.#socket = socket;
    this.#limits = limits;
    this.#clock = clock;
    this.#handler = handler;
    this.#batchBytes = socket instanceof TLSSocket ? SLOW_BATCH_BYTES : BATCH_BYTES;
    readBorrowed(socket, clock, (piece) => {
      this.#received(piece);
    });
    socket.on("end", () => {
      this.#ended();
    });
    socket.on("error", (error) => {
      this.#error ??= error;
    });
    socket.on("close", () => {
      this.#closed();
    });
    // A socket that failed on its way here has told its last listener already.
    if (socket.closed) {
      setImmediate(() => {
        this.#error ??= socket.errored ?? undefined;
        this.#closed();
      });
    }
  }

  /** Bytes written that the kernel has not taken. */
  get queuedBytes(): number {
    return this.#queue.bytes + this.#inFlightBytes;
  }

  /** Queue bytes for the peer. The caller leaves them alone from now on. */
  write(piece: Buffer): void {
    if (this.#state !== "open" || this.#isFinishing || piece.length === 0) return;
    this.#queue.push(piece);
    if (piece.length < GATHER_FROM_BYTES || this.#queue.bytes >= this.#batchBytes) {
      this.#flush();
    } else if (this.#inFlightBytes === 0 && !this.#isFlushScheduled) {
      this.#isFlushScheduled = true;
      setImmediate(this.#flushScheduled);
    }
  }

  /** Tell of a batch that the system has not taken whole how much of it it has, which is not known with TLS. */
  reportTaken(): void {
    const leftBytes = this.#inFlightBytes > 0 ? waitingBytes(this.#socket) : 0;
    // With nothing left the batch is about to be told as a whole.
    if (leftBytes === 0 || leftBytes >= this.#inFlightBytes) return;
    const takenBytes = this.#inFlightBytes - leftBytes;
    this.#inFlightBytes = leftBytes;
    this.#handler.taken(takenBytes);
  }

  /** Finish sending, behind everything written; the peer may go on. Idempotent. */
  finish(): void {
    if (this.#state !== "open" || this.#isFinishing) return;
    this.#isFinishing = true;
    if (this.queuedBytes === 0) this.#socket.end();
  }

  /**
   * Stop reading once {@link READ_AHEAD_BYTES} more have come: then the kernel's buffer fills and the
   * peer has to wait. One that sends less and leaves is noticed all the same.
   */
  pauseReading(): void {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#readAheadBytes = 0;
  }

  resumeReading(): void {
    this.#isPaused = false;
    this.#socket.resume();
  }

  /**
   * Close in an orderly way: everything written, then an end, then wait a moment for the peer's.
   * What the peer sends meanwhile is read and dropped, because closing a socket with unread bytes
   * resets it, and a reset can overtake what was written last.
   *
   * @param flushed - Called once: with true when everything has left, with false when that was
   * given up or the socket failed.
   */
  close(flushed?: (complete: boolean) => void): void {
    if (this.#state !== "open") return;
    this.#state = "closing";
    this.#flushed = flushed;
    this.resumeReading();
    this.#watchProgress();
    if (this.#socket.writableFinished) {
      // Not before the caller is back.
      queueMicrotask(() => {
        this.#finished();
      });
      return;
    }
    this.#socket.once("finish", () => {
      this.#finished();
    });
    if (this.queuedBytes === 0 && !this.#isFinishing) this.#socket.end();
  }

  /**
   * Close so that the peer sees everything written and then a reset; provided that it reads, as far
   * as can be known ({@link RESET_GRACE_MS}).
   */
  resetBehindData(): void {
    if (this.#state !== "open") return;
    this.#state = "resetting";
    this.resumeReading();
    if (this.queuedBytes === 0) this.#resetSoon();
    else this.#watchProgress();
  }

  /** Close at once, so that the peer sees a reset. What is queued is dropped. Idempotent. */
  reset(): void {
    if (this.#state === "closed") return;
    this.#state = "resetting";
    this.#queue.clear();
    resetSocket(this.#socket);
  }

  #received(piece: Buffer): void {
    if (this.#isPaused) {
      this.#readAheadBytes += piece.length;
      if (this.#readAheadBytes >= READ_AHEAD_BYTES) this.#socket.pause();
    }
    // More may come at once than a packet may hold.
    for (let at = 0; at < piece.length && this.#state === "open"; at += PIECE_BYTES) {
      this.#handler.data(piece.subarray(at, at + PIECE_BYTES));
    }
  }

  readonly #written = (error?: Error | null): void => {
    const takenBytes = this.#inFlightBytes;
    this.#inFlightBytes = 0;
    if (this.#waitsSinceMs !== undefined) {
      const isSlow = this.#clock.now() - this.#waitsSinceMs > SLOW_TAKE_MS;
      this.#batchBytes = isSlow ? SLOW_BATCH_BYTES : BATCH_BYTES;
    }
    // After a failure "close" follows; until then there is nothing to tell.
    if (error instanceof Error || this.#state === "closed") return;
    this.#took(takenBytes);
    this.#flush();
  };

  readonly #flushScheduled = (): void => {
    this.#isFlushScheduled = false;
    this.#flush();
  };

  /** Hand the next batches to the socket once it has taken the last one, until one is not taken at once. */
  #flush(): void {
    while (this.#inFlightBytes === 0 && this.#queue.bytes > 0) {
      const bytes = this.#queue.wholeBytes(this.#batchBytes);
      const batch: Buffer[] = [];
      this.#queue.take(bytes, batch);
      this.#inFlightBytes = bytes;
      const outcome = writeTogether(this.#socket, batch, this.#written);
      this.#waitsSinceMs = outcome === "waits" ? this.#clock.now() : undefined;
      if (outcome === "waits") this.reportTaken();
      if (outcome !== "taken") return;
      this.#inFlightBytes = 0;
      this.#took(bytes);
    }
  }

  /** The socket has taken a batch. */
  #took(bytes: number): void {
    if (this.queuedBytes === 0) {
      if (this.#state === "resetting") this.#resetSoon();
      else if (this.#state === "closing" || this.#isFinishing) this.#socket.end();
    }
    this.#handler.taken(bytes);
  }

  /** Everything has left, the end included: the peer has a while to finish as well. */
  #finished(): void {
    if (this.#state !== "closing") return;
    this.#tellFlushed(true);
    this.#cancelStallTimer?.();
    this.#cancelStallTimer = this.#clock.schedule(this.#limits.closeStallMs, () => {
      this.#socket.destroy();
    });
  }

  /** Give up when the peer has taken nothing of what is queued for too long. */
  #watchProgress(): void {
    const queuedBytesBefore = this.queuedBytes;
    this.#cancelStallTimer = this.#clock.schedule(this.#limits.closeStallMs, () => {
      this.reportTaken();
      // Bytes are lost, which must not look like an orderly end.
      if (this.queuedBytes < queuedBytesBefore) this.#watchProgress();
      else this.reset();
    });
  }

  #resetSoon(): void {
    this.#cancelStallTimer?.();
    this.#cancelStallTimer = this.#clock.schedule(RESET_GRACE_MS, () => {
      this.reset();
    });
  }

  #ended(): void {
    if (this.#state !== "open") return;
    if (endedByReset(this.#socket)) {
      this.#error ??= new HiddenResetError();
      this.#socket.destroy();
    } else if (peerHasGone(this.#socket)) {
      this.#socket.destroy();
    } else {
      this.#handler.ended();
    }
  }

  #closed(): void {
    this.#state = "closed";
    this.#queue.clear();
    this.#cancelStallTimer?.();
    this.#tellFlushed(false);
    this.#handler.closed(this.#error);
  }

  #tellFlushed(complete: boolean): void {
    const flushed = this.#flushed;
    this.#flushed = undefined;
    flushed?.(complete);
  }
}
