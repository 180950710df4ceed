import { int64FromBigInt } from "../packet/int64.ts";
import type { Int64 } from "../packet/int64.ts";
import type { Random } from "../random.ts";

/** A repeatable `Random` (mulberry32): the same seed gives the same run. */
export class SeededRandom implements Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  }

  int63(): Int64 {
    const high = BigInt(Math.floor(this.fraction() * 0x8000_0000));
    const low = BigInt(Math.floor(this.fraction() * 0x1_0000_0000));
    return int64FromBigInt((high << 32n) | low);
  }

  uuid(): string {
    const hex = Array.from({ length: 32 }, () =>
      Math.floor(this.fraction() * 16).toString(16),
    ).join("");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
  }
}
