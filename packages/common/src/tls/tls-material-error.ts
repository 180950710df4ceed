/**
 * A certificate, key or CA file that cannot be used.
 *
 * The message is upstream's, word for word, where upstream has one; a remark in parentheses may
 * follow it. It names the file and never contains key material.
 */
export class TlsMaterialError extends Error {
  override readonly name = "TlsMaterialError";
}
