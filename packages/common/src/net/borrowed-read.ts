import { Socket } from "node:net";
import type { OnReadOpts, SocketConstructorOpts } from "node:net";
import { TLSSocket } from "node:tls";
import type { Clock } from "../clock.ts";
import { PIECE_BYTES } from "../piece-bytes.ts";
import { BLOCK_BYTES, SLOT_BYTES, recycledMemory } from "../recycled-memory.ts";
import type { Block } from "../recycled-memory.ts";
import { isTcp } from "./is-tcp.ts";

/** What is read of a socket at a time, which then need not be cut; and of a TCP socket that brings much. */
const READ_BYTES = PIECE_BYTES;
const LONG_READ_BYTES = PIECE_BYTES * Math.floor(BLOCK_BYTES / PIECE_BYTES);

/** A read of this size is likely to be followed by as much. */
const LARGE_READ_BYTES = READ_BYTES / 2;

/** What TLS hands out at once: the largest record's content. */
const TLS_READ_BYTES = SLOT_BYTES;

/**
 * What is read of a TLS socket before others have their turn. libuv reads on 32 times while there is more, 1.3 MiB of
 * TLS in some 1.3 ms, and whoever dials waits for that more than once: beside a download, dials take 6.3 ms instead
 * of 7.0 on average. The download costs no more; with half as much it is slower.
 */
const MAX_TURN_BYTES = 512 * 1024;

/**
 * Where sockets are read into that have no block of their own. Nothing else is read between a read
 * and the call that hands its bytes out; but bytes of a TLS socket come out while its own socket is
 * read.
 */
const readBuffer = Buffer.allocUnsafeSlow(READ_BYTES);
const tlsReadBuffer = Buffer.allocUnsafeSlow(TLS_READ_BYTES);

/** A socket whose reads bring less does without a block of its own. */
const MIN_BLOCK_READ_BYTES = 16 * 1024;

/** With less left of it, a block is changed for another one. */
const MIN_ROOM_BYTES = PIECE_BYTES;

/** Blocks that sockets without TLS leave to those with it, which cannot gather without. */
const BLOCKS_LEFT_TO_TLS = 4;

/** A socket that has read nothing for so long loses its block to one that needs it. */
const BLOCK_IDLE_MS = 5_000;

/** How often it may: each time leaves a listener of some 40 bytes in Node until the socket is closed. */
const MAX_LOSSES = 1_000;

/** Where a socket keeps its `onread` option, and what gives it the buffer for its next read. */
interface OnreadKeys {
  readonly buffer: symbol;
  readonly callback: symbol;
  readonly nextBuffer: symbol;
}

/** The handle of a socket, as far as it is used here. */
interface ReadHandle {
  useUserBuffer?(buffer: Uint8Array): void;
  /** Whether it reads, as the socket keeps it there itself when it pauses and resumes. */
  reading?: boolean;
  readStop?(): number;
}

const onreadKeys = findOnreadKeys();

/**
 * Set by a callback of the option when nothing can fail any more, for the call of
 * {@link takeNextBuffer} that follows at once.
 */
let nextBuffer: Buffer | undefined;

/** What the socket whose callback has returned is read into from now on; `undefined`: as before. */
function takeNextBuffer(): Buffer | undefined {
  const buffer = nextBuffer;
  nextBuffer = undefined;
  return buffer;
}

/**
 * Hand out what `socket` receives, as `data` events would, but in memory that is the caller's
 * during the call only. What `received` wants of it for longer it has to `recycledMemory.keep`,
 * which copies nothing where a socket has brought so much that it is read into a block of its own.
 *
 * Node has this for sockets that it connects (`onread` of `net.connect`), and neither for those that
 * a server accepts nor for TLS on top of a socket. There it is set up by hand, in the same place,
 * and where a version of Node has no such place, `data` events it is.
 *
 * If `received` throws, the socket is destroyed: it would go on to read where it was.
 */
export function readBorrowed(
  socket: Socket,
  clock: Pick<Clock, "now">,
  received: (piece: Buffer) => void,
): void {
  const handOut = (piece: Buffer) => {
    try {
      received(piece);
    } catch (error) {
      socket.destroy();
      throw error;
    }
  };
  const isTls = socket instanceof TLSSocket;
  if (onreadKeys !== undefined && readInto(socket, isTls ? tlsReadBuffer : readBuffer)) {
    const internals = socket as unknown as Record<symbol, unknown>;
    internals[onreadKeys.callback] = (isTls ? tlsReads : plainReads)(socket, clock, handOut);
    internals[onreadKeys.nextBuffer] = takeNextBuffer;
  }
  // What the socket had read before comes first, this way; and so the socket begins to flow.
  socket.on("data", received);
}

/** Have `socket` read into `buffer`, also between reads. False if it cannot. */
function readInto(socket: Socket, buffer: Buffer): boolean {
  const internals = socket as unknown as Record<symbol, unknown>;
  const handle = handleOf(socket);
  if (onreadKeys === undefined || typeof handle?.useUserBuffer !== "function") return false;
  internals[onreadKeys.buffer] = buffer;
  handle.useUserBuffer(buffer);
  return true;
}

function handleOf(socket: Socket): ReadHandle | undefined {
  return (socket as unknown as { _handle?: ReadHandle | null })._handle ?? undefined;
}

/** Read on in the next turn of the event loop, unless the socket's owner has paused it by then. */
function readOnNextTurn(socket: Socket): void {
  const handle = handleOf(socket);
  if (handle?.reading !== true || handle.readStop?.() !== 0) return;
  handle.reading = false;
  setImmediate(() => {
    // Has the handle read again; without effect if its owner did that meanwhile.
    if (!socket.isPaused() && !socket.destroyed) socket.resume();
  });
}

/**
 * After a large read more is likely to follow, for which a block is worth its while. Of TCP up to two pieces
 * are read at a time, a twelfth less CPU for whoever reads much; of a Unix socket that costs more, since its
 * writer then waits longer.
 */
function plainReads(socket: Socket, clock: Pick<Clock, "now">, received: (piece: Buffer) => void) {
  let own: OwnBlock | undefined;
  let maxBytes = READ_BYTES;
  return (bytes: number) => {
    if (own?.isHeld === true) {
      own.filled(bytes);
      own.handOut(received);
      if (bytes >= MIN_BLOCK_READ_BYTES) {
        nextBuffer = own.room(maxBytes) ?? readBuffer;
      } else {
        own.giveBack();
        nextBuffer = readBuffer;
      }
      return true;
    }
    received(readBuffer.subarray(0, bytes));
    if (bytes >= LARGE_READ_BYTES) {
      own ??= new OwnBlock(socket, readBuffer, BLOCKS_LEFT_TO_TLS, clock);
      if (isTcp(socket)) maxBytes = LONG_READ_BYTES;
      nextBuffer = own.room(maxBytes);
    }
    return true;
  };
}

/**
 * TLS hands out record by record, full ones (16 KiB) as long as there is more to come. Those are
 * gathered in a block until the last one comes, the block is full, or the turn of the event loop ends.
 */
function tlsReads(socket: Socket, clock: Pick<Clock, "now">, received: (piece: Buffer) => void) {
  let own: OwnBlock | undefined;
  let turnBytes = 0;
  let isHandOutScheduled = false;
  const handOut = () => own?.handOut(received);
  const handOutScheduled = () => {
    isHandOutScheduled = false;
    handOut();
  };
  for (const event of ["end", "error", "close"]) socket.prependListener(event, handOut);
  return (bytes: number) => {
    turnBytes += bytes;
    if (turnBytes >= MAX_TURN_BYTES) {
      turnBytes = 0;
      readOnNextTurn(socket);
    }
    const isFull = bytes === TLS_READ_BYTES;
    if (own?.isHeld !== true) {
      const room = isFull
        ? (own ??= new OwnBlock(socket, tlsReadBuffer, 0, clock)).slot()
        : undefined;
      if (own === undefined || room === undefined) {
        received(tlsReadBuffer.subarray(0, bytes));
        return true;
      }
      room.set(tlsReadBuffer);
    }
    const isAlone = own.gatheredBytes === 0;
    own.filled(bytes);
    if (!isFull || !own.hasSlot) {
      handOut();
    } else if (!isHandOutScheduled) {
      isHandOutScheduled = true;
      setImmediate(handOutScheduled);
    }
    if (isFull || !isAlone) {
      nextBuffer = own.slot() ?? tlsReadBuffer;
    } else {
      own.giveBack();
      nextBuffer = tlsReadBuffer;
    }
    return true;
  };
}

/** A block of `recycledMemory` that one socket is read into, as long as it brings much. */
class OwnBlock {
  /** Those that have a block. */
  static readonly #holders = new Set<OwnBlock>();

  readonly #socket: Socket;
  readonly #sharedBuffer: Buffer;
  readonly #blocksLeft: number;
  readonly #clock: Pick<Clock, "now">;
  #block: Block | undefined;
  /** What has been read and not been handed out. */
  #start = 0;
  #end = 0;
  #lastReadMs = 0;
  #losses = 0;
  #isClosed: boolean;

  /**
   * @param sharedBuffer - Where the socket is read into without a block.
   * @param blocksLeft - Blocks that it leaves to others.
   */
  constructor(socket: Socket, sharedBuffer: Buffer, blocksLeft: number, clock: Pick<Clock, "now">) {
    this.#socket = socket;
    this.#sharedBuffer = sharedBuffer;
    this.#blocksLeft = blocksLeft;
    this.#clock = clock;
    this.#isClosed = socket.destroyed;
    socket.once("close", () => {
      this.#isClosed = true;
      this.giveBack();
    });
  }

  get isHeld(): boolean {
    return this.#block !== undefined;
  }

  get gatheredBytes(): number {
    return this.#end - this.#start;
  }

  /** Whether another record can be gathered. */
  get hasSlot(): boolean {
    return this.#end + SLOT_BYTES <= BLOCK_BYTES;
  }

  /** Where to read up to `maxBytes` next; `undefined`, and nothing held, where no block is to be had. */
  room(maxBytes: number): Buffer | undefined {
    this.#makeRoom();
    return this.#block?.memory.subarray(this.#end, Math.min(this.#end + maxBytes, BLOCK_BYTES));
  }

  /** As {@link room}, for a record. */
  slot(): Buffer | undefined {
    this.#makeRoom();
    return this.#block?.slots[this.#end / SLOT_BYTES];
  }

  /** So many bytes have been read into what {@link room} or {@link slot} returned. */
  filled(bytes: number): void {
    this.#end += bytes;
  }

  /** Hand out what has been gathered. The block goes on behind it. */
  handOut(received: (piece: Buffer) => void): void {
    if (this.#block === undefined || this.gatheredBytes === 0) return;
    const piece = this.#block.memory.subarray(this.#start, this.#end);
    this.#start = this.#end;
    this.#lastReadMs = this.#clock.now();
    received(piece);
  }

  /** Do without. Idempotent. */
  giveBack(): void {
    const block = this.#block;
    this.#block = undefined;
    this.#start = this.#end = 0;
    if (block === undefined) return;
    OwnBlock.#holders.delete(this);
    recycledMemory.takeBack(block);
  }

  #makeRoom(): void {
    if (this.gatheredBytes > 0) return;
    const block = this.#block;
    if (block !== undefined) {
      const end = SLOT_BYTES * Math.ceil(this.#end / SLOT_BYTES);
      this.#start = this.#end = recycledMemory.isUnused(block) ? 0 : end;
      if (this.#end + MIN_ROOM_BYTES <= BLOCK_BYTES) return;
      this.giveBack();
    }
    if (this.#isClosed || this.#losses === MAX_LOSSES) return;
    this.#block = recycledMemory.lend(this.#blocksLeft);
    if (this.#block === undefined) {
      OwnBlock.#takeFromIdle(this.#clock.now());
      this.#block = recycledMemory.lend(this.#blocksLeft);
    }
    if (this.#block !== undefined) OwnBlock.#holders.add(this);
    this.#lastReadMs = this.#clock.now();
  }

  static #takeFromIdle(nowMs: number): void {
    for (const holder of OwnBlock.#holders) {
      if (holder.gatheredBytes > 0 || nowMs < holder.#lastReadMs + BLOCK_IDLE_MS) continue;
      if (!readInto(holder.#socket, holder.#sharedBuffer)) continue;
      holder.#losses++;
      holder.giveBack();
    }
  }
}

/** Finds them by what they lead to, in a socket that has the option. */
function findOnreadKeys(): OnreadKeys | undefined {
  const buffer = Buffer.alloc(1);
  const callback = () => true;
  const bufferKey = keyOf({ buffer, callback }, buffer);
  const callbackKey = keyOf({ buffer, callback }, callback);
  const makeBuffer = () => buffer;
  const nextBufferKey = keyOf({ buffer: makeBuffer, callback }, makeBuffer);
  if (bufferKey === undefined || callbackKey === undefined || nextBufferKey === undefined) {
    return undefined;
  }
  return { buffer: bufferKey, callback: callbackKey, nextBuffer: nextBufferKey };
}

/** Where a socket with the option `onread` has `value`. */
function keyOf(onread: OnReadOpts, value: unknown): symbol | undefined {
  const options: SocketConstructorOpts & { onread: OnReadOpts } = { onread };
  const socket = new Socket(options) as unknown as Record<symbol, unknown>;
  return Object.getOwnPropertySymbols(socket).find((key) => socket[key] === value);
}
