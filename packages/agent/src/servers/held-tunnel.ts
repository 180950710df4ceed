import type { CancelTimer, Clock } from "@reachback/common";
import { SURPLUS_LINGER_MS } from "../limits.ts";
import type { OpenTunnel } from "../tunnel/tunnel-connector.ts";

/**
 * - `up`: the tunnel to its server, which counts.
 * - `connectionLeaving`: its HTTP/2 connection takes its leave (GOAWAY). What is open lives on;
 *   another tunnel is wanted, to the same server or to another.
 * - `serverDraining`: its server takes its leave. As above, but not to the same server as long as this
 *   one is open.
 * - `surplus`: it is wanted no more, and is closed when it is idle.
 * - `ending`: we have ended it.
 * - `over`: closed; its socket, or some endpoint's, may still be open.
 */
export type TunnelState =
  "up" | "connectionLeaving" | "serverDraining" | "surplus" | "ending" | "over";

/** A tunnel of which something is left. */
export class HeldTunnel {
  readonly open: OpenTunnel;
  /** Where it was opened, for logs. */
  readonly address: string;
  readonly openedAtMs: number;
  /** The places that lead to its server. */
  readonly places = new Set<string>();
  /** How many servers there are, as its server said last. */
  announcedCount = 0;
  state: TunnelState = "up";
  isSocketClosed = false;
  #cancelLinger: CancelTimer | undefined;

  constructor(open: OpenTunnel, address: string, openedAtMs: number) {
    this.open = open;
    this.address = address;
    this.openedAtMs = openedAtMs;
  }

  get isOpen(): boolean {
    return this.state !== "ending" && this.state !== "over";
  }

  /** Ask for no new connections, and end once the last one is gone, in {@link SURPLUS_LINGER_MS} at the soonest. */
  drainAway(clock: Clock): void {
    this.state = "surplus";
    this.open.tunnel.drain();
    this.#cancelLinger = clock.schedule(SURPLUS_LINGER_MS, () => {
      this.#cancelLinger = undefined;
      this.endIfDrained();
    });
  }

  endIfDrained(): void {
    const isDue = this.state === "surplus" && this.#cancelLinger === undefined;
    if (isDue && this.open.tunnel.isIdle) this.end();
  }

  end(): void {
    this.#cancelLinger?.();
    if (this.isOpen) this.state = "ending";
    this.open.end();
  }

  /** It has been closed. */
  over(): void {
    this.#cancelLinger?.();
    this.state = "over";
  }
}
