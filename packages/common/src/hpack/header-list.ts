/** One header field. Both strings hold bytes, one per character (latin1). */
export type HeaderField = readonly [name: string, value: string];

/** Header fields in the order in which they travel; a name may occur more than once. */
export type HeaderList = readonly HeaderField[];

/**
 * What a field costs in a dynamic table (RFC 7541 section 4.1) and in a header list (RFC 9113
 * section 6.5.2), in bytes: its text, and 32 for the bookkeeping around it.
 */
export function fieldBytes(field: HeaderField): number {
  return field[0].length + field[1].length + 32;
}
