import { huffmanBytes, writeHuffman } from "./huffman.ts";

/** Holds nearly every gRPC header block. */
const INITIAL_BYTES = 512;

/** A larger buffer is given away with its block rather than kept for the next one. */
const LARGEST_KEPT_BYTES = 4096;

/** An integer's first octet and, for anything below 2^32, up to five more. */
const MAX_INTEGER_BYTES = 6;

/** Up to here a loop is faster than the call into native code. */
const SHORT_TEXT_LENGTH = 24;

const HUFFMAN_FLAG = 0x80;

/** Puts a header block together out of the integers and strings of RFC 7541 section 5. */
export class BlockWriter {
  #buffer = Buffer.allocUnsafeSlow(INITIAL_BYTES);
  #length = 0;

  /** Write `value` below `flags`, the bits of the first octet above the lowest `prefixBits`. */
  writeInteger(flags: number, prefixBits: number, value: number): void {
    this.#reserve(MAX_INTEGER_BYTES);
    const largestPrefix = (1 << prefixBits) - 1;
    if (value < largestPrefix) {
      this.#buffer[this.#length++] = flags | value;
      return;
    }
    this.#buffer[this.#length++] = flags | largestPrefix;
    let rest = value - largestPrefix;
    while (rest >= 0x80) {
      this.#buffer[this.#length++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    this.#buffer[this.#length++] = rest;
  }

  /**
   * Write `text`, Huffman coded if that makes it shorter.
   *
   * @throws {RangeError} If a character is above U+00FF.
   */
  writeString(text: string): void {
    const codedBytes = huffmanBytes(text);
    if (codedBytes < text.length) {
      this.writeInteger(HUFFMAN_FLAG, 7, codedBytes);
      this.#reserve(codedBytes);
      writeHuffman(text, this.#buffer, this.#length);
      this.#length += codedBytes;
    } else {
      this.writeInteger(0, 7, text.length);
      this.#reserve(text.length);
      this.#writePlain(text);
    }
  }

  /** The block, which belongs to the caller from now on. The writer begins a new one. */
  finish(): Buffer {
    const written = this.#buffer.subarray(0, this.#length);
    this.#length = 0;
    if (this.#buffer.length <= LARGEST_KEPT_BYTES) return Buffer.from(written);
    this.#buffer = Buffer.allocUnsafeSlow(INITIAL_BYTES);
    return written;
  }

  /** Throw away what was written since the last {@link finish}. */
  discard(): void {
    this.#length = 0;
  }

  #writePlain(text: string): void {
    if (text.length > SHORT_TEXT_LENGTH) {
      this.#length += this.#buffer.write(text, this.#length, "latin1");
      return;
    }
    for (let position = 0; position < text.length; position++) {
      this.#buffer[this.#length++] = text.charCodeAt(position);
    }
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
  }
}
