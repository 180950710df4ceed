import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { recycledMemory } from "../recycled-memory.ts";
import { writeDirectly } from "./direct-write.ts";
import type { Written } from "./direct-write.ts";

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
 * What became of a write: the system has `taken` all of it at once; some of it `waits` for room there; or that
 * is `unknown`, because TLS or what the socket had waiting is in between.
 */
export type WriteOutcome = "taken" | "waits" | "unknown";

/**
 * Write `buffers` to a socket as one, so that the system or TLS gets them in one
 * call. The caller leaves them alone from now on; what of them is `recycledMemory` is released once
 * it has left.
 *
 * @param written - Called later, unless the outcome is `taken`: when the system has taken all, or when it
 * never will. Without it, all goes through the socket's stream, whose back-pressure then says when to stop.
 */
export function writeTogether(
  socket: Socket,
  buffers: readonly Buffer[],
  written?: Written,
): WriteOutcome {
  if (buffers.length === 0) return "taken";
  if (buffers.length > 1 && socket instanceof TLSSocket) {
    writeBatch(socket, buffers, written);
    return "unknown";
  }
  return writeVector(socket, buffers, written);
}

/**
 * TLS copies several buffers into one of its own before it encrypts, which it allocates each time
 * (`TLSWrap::DoWrite`). Copied here instead, they are in memory that is still in the cache.
 */
function writeBatch(
  socket: TLSSocket,
  buffers: readonly Buffer[],
  written: Written | undefined,
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
  written: Written | undefined,
): WriteOutcome {
  const pieces = buffers.length > 1 ? joined(buffers) : buffers;
  const release = () => {
    for (const buffer of buffers) recycledMemory.release(buffer);
  };
  const allWritten = (error?: Error | null) => {
    // What failed may still be under way; the garbage collector knows better.
    if (!(error instanceof Error)) release();
    written?.(error);
  };
  const outcome = written === undefined ? undefined : writeDirectly(socket, pieces, allWritten);
  if (outcome === "taken") release();
  if (outcome !== undefined) return outcome;
  writeToStream(socket, pieces, allWritten);
  return "unknown";
}

function writeToStream(socket: Socket, pieces: readonly Buffer[], written: Written): void {
  const [first] = pieces;
  if (first !== undefined && pieces.length === 1) {
    socket.write(first, written);
    return;
  }
  const last = pieces.length - 1;
  socket.cork();
  for (const [index, piece] of pieces.entries()) {
    socket.write(piece, index === last ? written : undefined);
  }
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
