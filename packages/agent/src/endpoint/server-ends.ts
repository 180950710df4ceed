import { PacketType } from "@reachback/common";
import type { CloseResponsePacket, Flow } from "@reachback/common";

/**
 * How the server is told of the ends of one connection; see PROTOCOL.md, "Ends and resets". When, and
 * what becomes of the endpoint then, is the connection's concern.
 */
export class ServerEnds {
  readonly #flow: Flow;
  readonly #onTold: () => void;
  #closeError = "";
  #isTold = false;

  /** @param onTold - The server knows that the connection is closed, or never will. Called once. */
  constructor(flow: Flow, onTold: () => void) {
    this.#flow = flow;
    this.#onTold = onTold;
  }

  /** Whether CLOSE_RSP has been sent, or cannot be. */
  get isTold(): boolean {
    return this.#isTold;
  }

  /** The endpoint has finished sending; only where the server knows half-close. */
  finish(): void {
    const { connectionId } = this.#flow;
    this.#flow.sendBehind({ type: PacketType.FINISH, connectionId });
  }

  /** The connection is closed: behind what the endpoint sent. @param error - Empty if orderly. */
  close(error: string): void {
    this.#closeError = error;
    this.#flow.sendBehind(this.#closeResponse(), () => {
      this.#told();
    });
  }

  /**
   * Behind {@link close}: say so now, if it still waits. Nobody wants what there is no credit for.
   */
  closeNow(): void {
    if (this.#isTold) return;
    this.#flow.sendAbort(this.#closeResponse());
    this.#told();
  }

  /** The tunnel is gone: nothing can be told any more. Idempotent. */
  lost(): void {
    if (!this.#isTold) this.#told();
  }

  #closeResponse(): CloseResponsePacket {
    const { connectionId } = this.#flow;
    return { type: PacketType.CLOSE_RSP, connectionId, error: this.#closeError };
  }

  #told(): void {
    this.#isTold = true;
    this.#onTold();
  }
}
