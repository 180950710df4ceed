import { leadingBits } from "./ip-address.ts";
import type { IpAddress, IpPrefix } from "./ip-address.ts";

/** Values by the prefixes of addresses. */
export class PrefixTable<Value> {
  /** By family and length, longest first; each by the leading bits. */
  readonly #byLength = { 4: new Map<number, Map<bigint, Value>>(), 6: new Map() } as Readonly<
    Record<4 | 6, Map<number, Map<bigint, Value>>>
  >;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get({ address, length }: IpPrefix): Value | undefined {
    return this.#byLength[address.family].get(length)?.get(leadingBits(address, length));
  }

  set({ address, length }: IpPrefix, value: Value): void {
    const lengths = this.#byLength[address.family];
    let values = lengths.get(length);
    if (values === undefined) {
      values = new Map();
      // A new length is rare: sorting all of them again is simplest.
      const all = [...lengths, [length, values] as const].sort(([one], [other]) => other - one);
      lengths.clear();
      for (const [key, its] of all) lengths.set(key, its);
    }
    const bits = leadingBits(address, length);
    if (!values.has(bits)) this.#size++;
    values.set(bits, value);
  }

  delete({ address, length }: IpPrefix): void {
    const lengths = this.#byLength[address.family];
    const values = lengths.get(length);
    if (values?.delete(leadingBits(address, length)) !== true) return;
    this.#size--;
    if (values.size === 0) lengths.delete(length);
  }

  /** The values of all prefixes that the address has, the longest first. */
  *matches(address: IpAddress): Generator<Value> {
    for (const [length, values] of this.#byLength[address.family]) {
      const value = values.get(leadingBits(address, length));
      if (value !== undefined) yield value;
    }
  }
}
