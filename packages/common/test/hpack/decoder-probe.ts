import assert from "node:assert/strict";
import type { HeaderField, HeaderList } from "../../src/hpack/header-list.ts";
import type { HpackDecoder } from "../../src/hpack/hpack-decoder.ts";
import { HpackError } from "../../src/hpack/hpack-error.ts";

const FIRST_DYNAMIC_INDEX = 62;

/** A block written down in hexadecimal; white space is for the reader. */
export function blockOf(hex: string): Buffer {
  return Buffer.from(hex.replace(/\s/g, ""), "hex");
}

/** The fields of a block that must not be too large. */
export function decodedHeaders(decoder: HpackDecoder, block: Buffer): HeaderList {
  const decoded = decoder.decode(block);
  assert.ok(!decoded.tooLarge, "the header list is too large");
  return decoded.headers;
}

/** What `decoder` remembers, newest first: asks for one index after the other until one fails. */
export function dynamicTableOf(decoder: HpackDecoder): HeaderList {
  const table: HeaderField[] = [];
  while (true) {
    const index = FIRST_DYNAMIC_INDEX + table.length;
    // Up to index 126 one octet is enough; beyond that, this probe's tables do not go.
    assert.ok(index < 127);
    try {
      table.push(...decodedHeaders(decoder, Buffer.from([0x80 | index])));
    } catch (error) {
      if (error instanceof HpackError) return table;
      throw error;
    }
  }
}
