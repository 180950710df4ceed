import { randomBytes, randomUUID } from "node:crypto";

/** The only source of randomness in this repository; tests pass a seeded one. */
export interface Random {
  /** A float in [0, 1), for jitter and choices. Not for secrets. */
  fraction(): number;

  /** A non-negative 63-bit integer, as Go's `rand.Int63`: the dial id of the wire. */
  int63(): bigint;

  /** An RFC 9562 version 4 UUID, for server and agent ids. */
  uuid(): string;
}

export const systemRandom: Random = {
  fraction: () => Math.random(),
  int63: () => randomBytes(8).readBigUInt64BE() >> 1n,
  uuid: () => randomUUID(),
};
