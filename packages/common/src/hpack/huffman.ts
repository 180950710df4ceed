import { HpackError } from "./hpack-error.ts";

/**
 * The length in bits of each octet's code, sixteen octets a row (RFC 7541 appendix B).
 *
 * Lengths are all there is to know: the code is canonical, so the codes of one length are
 * consecutive numbers in the order of their octets, and follow those of the length before.
 */
const OCTET_CODE_BITS: readonly (readonly number[])[] = [
  [13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28],
  [28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28],
  [6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6],
  [5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10],
  [13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7],
  [7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6],
  [15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5],
  [6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28],
  [20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23],
  [24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24],
  [22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23],
  [21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23],
  [26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25],
  [19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27],
  [20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23],
  [26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26],
];

const EOS = 256;
const SHORTEST_CODE_BITS = 5;
const LONGEST_CODE_BITS = 30;
const MAX_PADDING_BITS = 7;

/** Bits of each symbol's code, EOS last. */
const CODE_BITS = Uint8Array.from([...OCTET_CODE_BITS.flat(), LONGEST_CODE_BITS]);
const CODES = canonicalCodes(CODE_BITS);

/*
 * Decoding reads four bits at a time. A state is an inner node of the code tree, and the step for
 * (state, nibble) holds the next state, at most one octet (the shortest code has five bits) and two
 * flags. 256 states times 16 nibbles are 16 KiB, which stay in the processor's first cache.
 */
const STEP_STATE_MASK = 0xff;
const STEP_OCTET_SHIFT = 8;
const STEP_EMITS_SHIFT = 16;
const STEP_IS_EOS = 1 << 17;
const { steps: STEPS, mayEnd: MAY_END } = decodingSteps(CODES, CODE_BITS);

/** Decoded octets on their way into a string; text that does not fit gets a buffer of its own. */
const scratch = Buffer.allocUnsafeSlow(4096);

/**
 * The size of `text` once encoded, in whole bytes.
 *
 * @throws {RangeError} If a character is above U+00FF.
 */
export function huffmanBytes(text: string): number {
  let bits = 0;
  for (let position = 0; position < text.length; position++) {
    const octet = text.charCodeAt(position);
    if (octet > 0xff) throw new RangeError("a header may hold characters up to U+00FF only");
    bits += CODE_BITS[octet]!;
  }
  return (bits + 7) >>> 3;
}

/** Write `text`, all of it latin1, at `offset`, where {@link huffmanBytes} bytes must be free. */
export function writeHuffman(text: string, target: Buffer, offset: number): void {
  let at = offset;
  // The lowest `waiting` bits of `bits` are still to be written; what is above them already was.
  let bits = 0;
  let waiting = 0;
  for (let position = 0; position < text.length; position++) {
    const octet = text.charCodeAt(position);
    const code = CODES[octet]!;
    let length = CODE_BITS[octet]!;
    if (length > 24) {
      // With up to seven bits waiting, a code this long does not fit into 32: two halves.
      length -= 16;
      bits = (bits << length) | (code >>> 16);
      waiting += length;
      while (waiting >= 8) {
        waiting -= 8;
        target[at++] = bits >>> waiting;
      }
      length = 16;
      bits = (bits << length) | (code & 0xffff);
    } else {
      bits = (bits << length) | code;
    }
    waiting += length;
    while (waiting >= 8) {
      waiting -= 8;
      target[at++] = bits >>> waiting;
    }
  }
  // The padding is the beginning of EOS, which is all ones.
  if (waiting > 0) target[at] = (bits << (8 - waiting)) | (0xff >>> waiting);
}

/**
 * The text that `source` holds from `start` up to `end`.
 *
 * @throws {HpackError} If it contains EOS, or is not padded with at most seven ones.
 */
export function decodeHuffman(source: Uint8Array, start: number, end: number): string {
  const mostOctets = Math.floor(((end - start) * 8) / SHORTEST_CODE_BITS);
  // One octet more than the text: each step writes one, though only some keep it.
  const target = mostOctets < scratch.length ? scratch : Buffer.allocUnsafe(mostOctets + 1);
  const length = decodeOctets(source, start, end, target);
  return target.toString("latin1", 0, length);
}

/** Decode into `target` and return the number of octets. */
function decodeOctets(source: Uint8Array, start: number, end: number, target: Uint8Array): number {
  let length = 0;
  let state = 0;
  let flags = 0;
  for (let position = start; position < end; position++) {
    const byte = source[position]!;
    const high = STEPS[(state << 4) | (byte >>> 4)]!;
    target[length] = high >>> STEP_OCTET_SHIFT;
    length += (high >>> STEP_EMITS_SHIFT) & 1;
    const low = STEPS[((high & STEP_STATE_MASK) << 4) | (byte & 0xf)]!;
    target[length] = low >>> STEP_OCTET_SHIFT;
    length += (low >>> STEP_EMITS_SHIFT) & 1;
    state = low & STEP_STATE_MASK;
    flags |= high | low;
  }
  if ((flags & STEP_IS_EOS) !== 0) throw new HpackError("Huffman string contains EOS");
  if (MAY_END[state] !== 1) throw new HpackError("Huffman string is not padded with up to 7 ones");
  return length;
}

/** Number the codes: shorter ones first, and in the order of their symbols among equals. */
function canonicalCodes(codeBits: Uint8Array): Uint32Array {
  const codes = new Uint32Array(codeBits.length);
  let next = 0;
  for (let bits = SHORTEST_CODE_BITS; bits <= LONGEST_CODE_BITS; bits++) {
    for (let symbol = 0; symbol < codeBits.length; symbol++) {
      if (codeBits[symbol] === bits) codes[symbol] = next++;
    }
    next *= 2;
  }
  return codes;
}

function decodingSteps(codes: Uint32Array, codeBits: Uint8Array) {
  const children = codeTree(codes, codeBits);
  const stateCount = children.length / 2;
  const steps = new Uint32Array(stateCount * 16);
  for (let index = 0; index < steps.length; index++) {
    let node = index >>> 4;
    for (let bit = 3; bit >= 0; bit--) {
      const child = children[node * 2 + ((index >>> bit) & 1)]!;
      node = Math.max(child, 0);
      const symbol = ~child;
      if (symbol === EOS) steps[index] = STEP_IS_EOS;
      else if (symbol >= 0) steps[index] = (1 << STEP_EMITS_SHIFT) | (symbol << STEP_OCTET_SHIFT);
    }
    steps[index] = steps[index]! | node;
  }

  // Text may end on a whole symbol, or up to seven ones after it.
  const mayEnd = new Uint8Array(stateCount);
  let node = 0;
  for (let ones = 0; ones <= MAX_PADDING_BITS; ones++) {
    mayEnd[node] = 1;
    node = children[node * 2 + 1]!;
  }
  return { steps, mayEnd };
}

/**
 * The code as a tree, its root being node 0. The two children of node `n` are at `2 * n` and
 * `2 * n + 1`: another node's number, or the complement (negative) of a symbol.
 */
function codeTree(codes: Uint32Array, codeBits: Uint8Array): Int16Array {
  // A complete code has one inner node less than symbols.
  const children = new Int16Array((codes.length - 1) * 2);
  let nodeCount = 1;
  for (const [symbol, code] of codes.entries()) {
    let node = 0;
    for (let bit = codeBits[symbol]! - 1; bit > 0; bit--) {
      const slot = node * 2 + ((code >>> bit) & 1);
      if (children[slot] === 0) children[slot] = nodeCount++;
      node = children[slot]!;
    }
    children[node * 2 + (code & 1)] = ~symbol;
  }
  return children;
}
