/** Peers that are remembered; of any more, the one that came first is forgotten. */
const MAX_PEERS = 16_384;

/**
 * Whose turn it is to get a socket. Each peer has turns of its own, so that an agent that connects
 * again and again, to have a tunnel to each worker, gets another one each time.
 */
export class Turns {
  /** The last turn of each peer, by its address. */
  readonly #byPeer = new Map<string, number>();
  #last = 0;

  /** @param peer - Its address; `undefined` where it has none, which all have together. */
  next(peer = ""): number {
    // A new peer begins where the last new one did not, so that all workers get as many.
    const turn = (this.#byPeer.get(peer) ?? this.#last++) + 1;
    if (!this.#byPeer.has(peer) && this.#byPeer.size >= MAX_PEERS) {
      const [oldest = ""] = this.#byPeer.keys();
      this.#byPeer.delete(oldest);
    }
    this.#byPeer.set(peer, turn);
    return turn;
  }
}
