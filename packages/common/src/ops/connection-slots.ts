import type { Socket } from "node:net";

/**
 * The connections of one listener, with a bound.
 *
 * When there is one too many, the one that has gone without a request for the longest time makes
 * room, so that clients who only hold connections never keep a probe out.
 */
export class ConnectionSlots {
  readonly #max: number;
  /** How many requests each is busy with; in the order of their last activity. */
  readonly #busyCounts = new Map<Socket, number>();

  constructor(max: number) {
    this.#max = max;
  }

  add(socket: Socket): void {
    while (this.#busyCounts.size >= this.#max) this.#makeRoom();
    this.#busyCounts.set(socket, 0);
    socket.once("close", () => {
      this.#busyCounts.delete(socket);
    });
  }

  requestStarted(socket: Socket): void {
    const count = this.#busyCounts.get(socket);
    if (count === undefined) return;
    this.#busyCounts.delete(socket);
    this.#busyCounts.set(socket, count + 1);
  }

  requestEnded(socket: Socket): void {
    const count = this.#busyCounts.get(socket);
    if (count !== undefined) this.#busyCounts.set(socket, count - 1);
  }

  isBusy(socket: Socket): boolean {
    return (this.#busyCounts.get(socket) ?? 0) > 0;
  }

  destroyIdle(): void {
    for (const socket of [...this.#busyCounts.keys()]) {
      if (!this.isBusy(socket)) socket.destroy();
    }
  }

  destroyAll(): void {
    for (const socket of [...this.#busyCounts.keys()]) socket.destroy();
  }

  #makeRoom(): void {
    const [oldest] = this.#busyCounts.keys();
    const victim = [...this.#busyCounts.keys()].find((socket) => !this.isBusy(socket)) ?? oldest;
    if (victim === undefined) return;
    victim.destroy();
    this.#busyCounts.delete(victim);
  }
}
