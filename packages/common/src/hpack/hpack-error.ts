/**
 * A header block that breaks RFC 7541.
 *
 * The two ends no longer agree about the dynamic table, so the HTTP/2 connection must end with
 * COMPRESSION_ERROR, and the decoder that threw must not be used again.
 */
export class HpackError extends Error {
  override readonly name = "HpackError";
}
