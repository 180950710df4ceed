/** A copy of this size costs less than what it may keep alive. */
const COPY_BELOW_BYTES = 4 * 1024;

/**
 * `piece`, or a copy of it if it is a small part of a large buffer: something that waits must not
 * keep everything alive that was read together with it.
 */
export function unpinned(piece: Buffer): Buffer {
  if (piece.length >= COPY_BELOW_BYTES || piece.buffer.byteLength < 4 * piece.length) return piece;
  return Buffer.from(piece);
}
