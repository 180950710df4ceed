/** Escapes that Go writes with a letter; everything else unprintable becomes a number. */
const LETTER_ESCAPES: Readonly<Record<string, string>> = {
  "\x07": "\\a",
  "\b": "\\b",
  "\f": "\\f",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\v": "\\v",
  "\\": "\\\\",
};

/** What Go calls printable: letters, marks, numbers, punctuation, symbols and the ASCII space. */
const PRINTABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u;

/** `text` as Go's `%q` prints a string: in double quotes, with everything unprintable escaped. */
export function goQuote(text: string): string {
  return `"${Array.from(text, (char) => escapeChar(char, '"')).join("")}"`;
}

/** One character as Go's `%q` prints a rune: in single quotes. */
export function goQuoteChar(char: string): string {
  return `'${escapeChar(char, "'")}'`;
}

function escapeChar(char: string, quote: '"' | "'"): string {
  if (char === quote) return `\\${quote}`;
  const letter = LETTER_ESCAPES[char];
  if (letter !== undefined) return letter;
  if (PRINTABLE.test(char)) return char;
  const codePoint = char.codePointAt(0) ?? 0xfffd;
  const hex = codePoint.toString(16);
  if (codePoint < 0x20 || codePoint === 0x7f) return `\\x${hex.padStart(2, "0")}`;
  return codePoint < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}
