import { randomBytes, randomUUID } from "node:crypto";
import { int64FromBigInt } from "./packet/int64.ts";
import type { Int64 } from "./packet/int64.ts";

/** The only source of randomness in this repository; tests pass a seeded one. */
export interface Random {
  /** A float in [0, 1), for jitter and choices. Not for secrets. */
  fraction(): number;

  /**
   * A non-negative 63-bit integer, as Go's `rand.Int63`: the dial id of the wire. In the form in
   * which it comes back from there: one in 1024 is small enough to be a `number`.
   */
  int63(): Int64;

  /** An RFC 9562 version 4 UUID, for server and agent ids. */
  uuid(): string;
}

export const systemRandom: Random = {
  fraction: () => Math.random(),
  int63: () => int64FromBigInt(randomBytes(8).readBigUInt64BE() >> 1n),
  uuid: () => randomUUID(),
};
