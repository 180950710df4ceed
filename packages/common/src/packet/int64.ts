/**
 * A protobuf `int64`, exactly.
 *
 * A `number` wherever that is exact (|value| <= 2^53 - 1), a `bigint` otherwise, and never the
 * other way round. Because of that rule `===` and `Map` keys compare ids by value. Dial ids use 63
 * bits and must come back bit for bit; connection ids are small, and stay cheap.
 */
export type Int64 = number | bigint;

/** The canonical form of a 64-bit two's complement value. */
export function int64FromBigInt(value: bigint): Int64 {
  const wrapped = BigInt.asIntN(64, value);
  return wrapped >= BigInt(Number.MIN_SAFE_INTEGER) && wrapped <= BigInt(Number.MAX_SAFE_INTEGER)
    ? Number(wrapped)
    : wrapped;
}

/** Bytes that {@link writeVarint} writes for `value`: 1 to 10. */
export function varintBytes(value: Int64): number {
  if (typeof value === "number" && value >= 0) {
    if (value < 0x80) return 1;
    if (value < 0x4000) return 2;
    if (value < 0x20_0000) return 3;
    if (value < 0x1000_0000) return 4;
    let bytes = 5;
    for (let rest = Math.floor(value / 0x8_0000_0000); rest > 0; rest = Math.floor(rest / 0x80)) {
      bytes++;
    }
    return bytes;
  }
  let bytes = 1;
  for (let rest = BigInt.asUintN(64, BigInt(value)) >> 7n; rest > 0n; rest >>= 7n) bytes++;
  return bytes;
}

/** Write `value` as a protobuf varint at `offset`; negative values take ten bytes. Returns the end. */
export function writeVarint(target: Buffer, offset: number, value: Int64): number {
  if (typeof value === "number" && value >= 0) {
    let rest = value;
    while (rest >= 0x80) {
      target[offset++] = (rest % 0x80) | 0x80;
      rest = rest < 0x8000_0000 ? rest >>> 7 : Math.floor(rest / 0x80);
    }
    target[offset++] = rest;
    return offset;
  }
  let rest = BigInt.asUintN(64, BigInt(value));
  while (rest >= 0x80n) {
    target[offset++] = Number(rest & 0x7fn) | 0x80;
    rest >>= 7n;
  }
  target[offset++] = Number(rest);
  return offset;
}
