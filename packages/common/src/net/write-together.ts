import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { recycledMemory } from "../recycled-memory.ts";

/** Buffers below this are copied together before they are written: cheaper than one more buffer. */
const COALESCE_BELOW_BYTES = 2 * 1024;

/** Room for the largest batch of an HTTP/2 connection over TCP with all frames' heads. */
export const BATCH_BYTES = 160 * 1024;

/** Smaller ones are not worth the memory that they would hold while they wait for a slow peer. */
const MIN_BATCH_BYTES = 32 * 1024;

/** Most batches kept for the next ones: 320 KiB. */
export const MAX_KEPT_BATCHES = 2;

const keptBatches: Buffer[] = [];

/**
 * Write `buffers` to a socket as one, so that the system or TLS gets them in one
 * call. The caller leaves them alone from now on; what of them is `recycledMemory` is released once
 * it has left.
 *
 * @param written - As the callback of `Socket.write`: the system has taken all, or never will. Not
 * called where there is nothing to write.
 */
export function writeTogether(
  socket: Socket,
  buffers: readonly Buffer[],
  written?: (error?: Error | null) => void,
): void {
  if (buffers.length > 1 && socket instanceof TLSSocket) writeBatch(socket, buffers, written);
  else writeVector(socket, buffers, written);
}

/**
 * TLS copies several buffers into one of its own before it encrypts, which it allocates each time
 * (`TLSWrap::DoWrite`). Copied here instead, they are in memory that is still in the cache.
 */
function writeBatch(
  socket: TLSSocket,
  buffers: readonly Buffer[],
  written: ((error?: Error | null) => void) | undefined,
): void {
  let bytes = 0;
  for (const buffer of buffers) bytes += buffer.length;
  if (bytes > BATCH_BYTES || bytes < MIN_BATCH_BYTES) {
    socket.write(Buffer.concat(buffers, bytes), written);
    for (const buffer of buffers) recycledMemory.release(buffer);
    return;
  }
  const batch = keptBatches.pop() ?? Buffer.allocUnsafeSlow(BATCH_BYTES);
  let at = 0;
  for (const buffer of buffers) {
    batch.set(buffer, at);
    at += buffer.length;
    recycledMemory.release(buffer);
  }
  socket.write(batch.subarray(0, at), (error) => {
    if (keptBatches.length < MAX_KEPT_BATCHES) keptBatches.push(batch);
    written?.(error);
  });
}

function writeVector(
  socket: Socket,
  buffers: readonly Buffer[],
  written: ((error?: Error | null) => void) | undefined,
): void {
  const pieces = buffers.length > 1 ? joined(buffers) : [...buffers];
  const last = pieces.pop();
  if (last === undefined) return;
  const lastWritten = (error?: Error | null) => {
    // What failed may still be under way; the garbage collector knows better.
    if (!(error instanceof Error)) for (const buffer of buffers) recycledMemory.release(buffer);
    written?.(error);
  };
  if (pieces.length === 0) {
    socket.write(last, lastWritten);
    return;
  }
  socket.cork();
  for (const piece of pieces) socket.write(piece);
  socket.write(last, lastWritten);
  socket.uncork();
}

/** Fewer buffers with the same bytes: small ones are copied, and neighbours in memory need no copy. */
function joined(buffers: readonly Buffer[]): Buffer[] {
  return withSmallJoined(withNeighboursJoined(buffers));
}

function withNeighboursJoined(buffers: readonly Buffer[]): Buffer[] {
  const pieces: Buffer[] = [];
  let last: Buffer | undefined;
  for (const buffer of buffers) {
    if (last?.buffer === buffer.buffer && last.byteOffset + last.length === buffer.byteOffset) {
      last = Buffer.from(last.buffer, last.byteOffset, last.length + buffer.length);
      pieces[pieces.length - 1] = last;
    } else {
      last = buffer;
      pieces.push(buffer);
    }
  }
  return pieces;
}

function withSmallJoined(buffers: readonly Buffer[]): Buffer[] {
  const pieces: Buffer[] = [];
  let small: Buffer[] = [];
  const join = () => {
    if (small.length > 0) pieces.push(Buffer.concat(small));
    small = [];
  };
  for (const buffer of buffers) {
    if (buffer.length < COALESCE_BELOW_BYTES) {
      small.push(buffer);
    } else {
      join();
      pieces.push(buffer);
    }
  }
  join();
  return pieces;
}
