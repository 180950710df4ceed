/** Bounds how many tunnels each identity has. */
export class TunnelQuota {
  readonly #limit: number;
  readonly #counts = new Map<string, number>();

  /** @param limit - Tunnels per identity; 0 for no limit. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Take a place for one more tunnel. Returns false if there is none. */
  take(identity: string): boolean {
    const count = this.#counts.get(identity) ?? 0;
    if (this.#limit > 0 && count >= this.#limit) return false;
    this.#counts.set(identity, count + 1);
    return true;
  }

  /** The tunnel is over: give its place back. */
  giveBack(identity: string): void {
    const count = this.#counts.get(identity) ?? 0;
    if (count > 1) this.#counts.set(identity, count - 1);
    else this.#counts.delete(identity);
  }
}
