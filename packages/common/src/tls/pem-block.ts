/** One `-----BEGIN x-----` block of a PEM file. */
export type PemBlock = WholePemBlock | BrokenPemBlock;

/** A block from its BEGIN to its END line, with sound base64 between. */
export interface WholePemBlock {
  readonly whole: true;
  /** What follows BEGIN, e.g. `CERTIFICATE` or `EC PRIVATE KEY`. */
  readonly type: string;
  /** Line of the BEGIN, counted from 1. */
  readonly line: number;
  /** Whether `Name: value` lines stand before the base64, as in old encrypted keys. */
  readonly hasHeaders: boolean;
  readonly bytes: Buffer;
}

/** A block whose bytes cannot be had. */
export interface BrokenPemBlock {
  readonly whole: false;
  readonly type: string;
  readonly line: number;
  readonly hasHeaders: boolean;
  /** What is wrong, to follow the block's name in a sentence. */
  readonly problem: string;
}

const BEGIN = /^-----BEGIN (.*)-----$/;
const END = /^-----END (.*)-----$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const BYTE_ORDER_MARK = "\ufeff";

/**
 * Every PEM block of `text`, in order. Text between blocks is skipped.
 *
 * A block that is cut off or not base64 is reported, not skipped: in a file that an operator names,
 * it is a mistake and not a comment.
 */
export function pemBlocksFromText(text: string): readonly PemBlock[] {
  const lines = text.replace(BYTE_ORDER_MARK, "").split("\n");
  const blocks: PemBlock[] = [];
  let open: OpenBlock | undefined;

  for (const [index, rawLine] of lines.entries()) {
    const line = rawLine.trimEnd();
    const begins = BEGIN.exec(line)?.[1];
    if (begins !== undefined) {
      if (open !== undefined) blocks.push(broken(open, "has no END line"));
      open = { type: begins, line: index + 1, headerCount: 0, base64: "" };
      continue;
    }
    if (open === undefined) continue;

    const ends = END.exec(line)?.[1];
    if (ends !== undefined) {
      blocks.push(closed(open, ends));
      open = undefined;
    } else if (open.base64 === "" && line.includes(":")) {
      open.headerCount++;
    } else {
      open.base64 += line.replaceAll(/[ \t]/g, "");
    }
  }

  if (open !== undefined) blocks.push(broken(open, "has no END line"));
  return blocks;
}

/** `bytes` as a PEM block that every TLS library reads. */
export function pemFromBytes(type: string, bytes: Buffer): string {
  const lines = bytes.toString("base64").match(/.{1,64}/g) ?? [];
  return [`-----BEGIN ${type}-----`, ...lines, `-----END ${type}-----`, ""].join("\n");
}

interface OpenBlock {
  readonly type: string;
  readonly line: number;
  headerCount: number;
  base64: string;
}

function closed(open: OpenBlock, endType: string): PemBlock {
  if (endType !== open.type) return broken(open, `ends as "${endType}"`);
  if (!BASE64.test(open.base64)) return broken(open, "is not valid base64");
  return {
    whole: true,
    type: open.type,
    line: open.line,
    hasHeaders: open.headerCount > 0,
    bytes: Buffer.from(open.base64, "base64"),
  };
}

function broken(open: OpenBlock, problem: string): BrokenPemBlock {
  return {
    whole: false,
    type: open.type,
    line: open.line,
    hasHeaders: open.headerCount > 0,
    problem,
  };
}
