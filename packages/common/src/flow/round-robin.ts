import { PIECE_BYTES } from "../piece-bytes.ts";

/** One of several senders that share a line. */
export interface Sender {
  /**
   * Send up to `maxBytes`, and what follows the last byte if they were the last. Returns how many
   * bytes were sent.
   */
  sendUpTo(maxBytes: number): number;

  /** Whether there is something to send now. */
  canSend(): boolean;
}

/**
 * Bytes a sender may send before it is another one's turn: the largest piece, so that pieces are seldom
 * cut. With half of it eight transfers take a twentieth more CPU.
 */
export const TURN_BYTES = PIECE_BYTES;

/**
 * Lets senders take turns, so that none of them is ever more than one turn ahead of another that
 * has as much to send. Order within a sender is its own business.
 */
export class RoundRobin<Member extends Sender> {
  readonly #waiting = new Set<Member>();

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  /** `sender` has something to send. It keeps its place if it waits already. */
  add(sender: Member): void {
    this.#waiting.add(sender);
  }

  remove(sender: Member): void {
    this.#waiting.delete(sender);
  }

  /** Let senders send, in turn, while `hasRoom` and while there are any. */
  run(hasRoom: () => boolean): void {
    // Who is put back comes to the end of the set, which this loop reaches again.
    for (const sender of this.#waiting) {
      if (!hasRoom()) return;
      this.#waiting.delete(sender);
      if (!sender.canSend()) continue;
      sender.sendUpTo(TURN_BYTES);
      if (sender.canSend()) this.#waiting.add(sender);
    }
  }
}
