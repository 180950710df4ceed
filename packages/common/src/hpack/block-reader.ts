import { HpackError } from "./hpack-error.ts";
import { decodeHuffman } from "./huffman.ts";

/**
 * How many octets may follow an integer's prefix. Four hold 28 bits, far more than any index,
 * string or table here, so that whatever is longer is an attack or garbage.
 */
const MAX_CONTINUATION_OCTETS = 4;

const HUFFMAN_FLAG = 0x80;

/**
 * Takes a header block apart into the integers and strings of RFC 7541 section 5.
 *
 * What it returns shares no memory with the block.
 */
export class BlockReader {
  readonly #block: Buffer;
  #offset = 0;

  constructor(block: Buffer) {
    this.#block = block;
  }

  get atEnd(): boolean {
    return this.#offset >= this.#block.length;
  }

  /** @throws {HpackError} At the end of the block. */
  readOctet(): number {
    const octet = this.#block[this.#offset++];
    if (octet === undefined) throw new HpackError("header block ends within a field");
    return octet;
  }

  /**
   * The integer that begins in the lowest `prefixBits` of `first`, an octet already read.
   *
   * @throws {HpackError} If it is cut off, or longer than any sensible number.
   */
  readInteger(first: number, prefixBits: number): number {
    const largestPrefix = (1 << prefixBits) - 1;
    let value = first & largestPrefix;
    if (value < largestPrefix) return value;

    for (let octets = 0; octets < MAX_CONTINUATION_OCTETS; octets++) {
      const octet = this.readOctet();
      value += (octet & 0x7f) << (7 * octets);
      if (octet < 0x80) return value;
    }
    throw new HpackError("integer is too long");
  }

  /** @throws {HpackError} If the string is cut off, or wrongly Huffman coded. */
  readString(): string {
    const first = this.readOctet();
    const length = this.readInteger(first, 7);
    const start = this.#offset;
    const end = start + length;
    if (end > this.#block.length) throw new HpackError("header block ends within a string");
    this.#offset = end;
    return (first & HUFFMAN_FLAG) === 0
      ? this.#block.toString("latin1", start, end)
      : decodeHuffman(this.#block, start, end);
  }
}
