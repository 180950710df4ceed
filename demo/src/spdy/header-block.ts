import { constants, deflateRawSync, inflateRawSync } from "node:zlib";
import { DICTIONARY } from "./dictionary.ts";

/** Names in lower case; several values of one name are joined by NUL. */
export type Headers = Readonly<Record<string, string>>;

/** How far back DEFLATE refers. */
const WINDOW_BYTES = 32 * 1024;

/** Larger blocks are refused. */
const MAX_BLOCK_BYTES = 64 * 1024;

/** zlib's head for a stream that begins with a dictionary, and that dictionary's Adler-32. */
const ZLIB_HEAD = Buffer.from([0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2]);

// All header blocks of one direction are one zlib stream, flushed to a whole byte behind each. Such a
// piece can be read and written alone, and at once, given the 32 KiB of text before it.

/** Compresses the header blocks that one end sends, in that order. */
export class HeaderCompressor {
  #window: Buffer = DICTIONARY;
  #isFirst = true;

  compress(headers: Headers): Buffer {
    const block = encodeBlock(headers);
    const piece = deflateRawSync(block, {
      dictionary: this.#window,
      finishFlush: constants.Z_SYNC_FLUSH,
    });
    this.#window = Buffer.concat([this.#window, block]).subarray(-WINDOW_BYTES);
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    return isFirst ? Buffer.concat([ZLIB_HEAD, piece]) : piece;
  }
}

/** Reads the header blocks that the other end sends, in that order, none left out. */
export class HeaderDecompressor {
  #window: Buffer = DICTIONARY;
  #isFirst = true;

  /** @throws {Error} if the block is malformed or too large; the connection is of no use then. */
  decompress(compressed: Buffer): Headers {
    let piece = compressed;
    if (this.#isFirst) {
      this.#isFirst = false;
      const head = compressed.subarray(0, ZLIB_HEAD.length);
      const usesDictionary = ((head[1] ?? 0) & 0x20) !== 0;
      if (!usesDictionary || !head.subarray(2).equals(ZLIB_HEAD.subarray(2))) {
        throw new Error("SPDY: the headers are not compressed with the dictionary of SPDY/3");
      }
      piece = compressed.subarray(ZLIB_HEAD.length);
    }
    const block = inflateRawSync(piece, {
      dictionary: this.#window,
      finishFlush: constants.Z_SYNC_FLUSH,
      maxOutputLength: MAX_BLOCK_BYTES,
    });
    this.#window = Buffer.concat([this.#window, block]).subarray(-WINDOW_BYTES);
    return decodeBlock(block);
  }
}

function encodeBlock(headers: Headers): Buffer {
  const entries = Object.entries(headers);
  return Buffer.concat([uint32(entries.length), ...entries.flat().flatMap(lengthAndText)]);
}

function lengthAndText(text: string): Buffer[] {
  const bytes = Buffer.from(text);
  return [uint32(bytes.length), bytes];
}

function decodeBlock(block: Buffer): Headers {
  let offset = 4;
  const readText = () => {
    const start = offset + 4;
    offset = start + block.readUInt32BE(offset);
    if (offset > block.length) throw new Error("SPDY: a header is longer than its block");
    return block.toString("utf8", start, offset);
  };
  const headers: Record<string, string> = {};
  for (let left = block.readUInt32BE(0); left > 0; left--) {
    const name = readText();
    headers[name.toLowerCase()] = readText();
  }
  return headers;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
