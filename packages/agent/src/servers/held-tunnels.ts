import { HeldTunnel } from "./held-tunnel.ts";
import type { OpenTunnel } from "../tunnel/tunnel-connector.ts";

/** Every tunnel of which something is left, oldest first. */
export class HeldTunnels {
  readonly #all = new Set<HeldTunnel>();

  get size(): number {
    return this.#all.size;
  }

  /** A tunnel that has just been opened. */
  hold(open: OpenTunnel, address: string, nowMs: number): HeldTunnel {
    const held = new HeldTunnel(open, address, nowMs);
    this.#all.add(held);
    return held;
  }

  /** Forget the tunnel if nothing is left of it. */
  release(held: HeldTunnel): void {
    if (held.isSocketClosed && held.open.tunnel.isIdle) this.#all.delete(held);
  }

  all(): readonly HeldTunnel[] {
    return [...this.#all];
  }

  /** Those that count. */
  up(): readonly HeldTunnel[] {
    return this.all().filter(({ state }) => state === "up");
  }

  /** The tunnel that makes another one to the same server a duplicate. */
  to(serverId: string): HeldTunnel | undefined {
    return this.excludingOthers().find(({ open }) => open.serverId === serverId);
  }

  /** Those that make another one to the same server a duplicate. */
  excludingOthers(): readonly HeldTunnel[] {
    return this.all().filter(({ state }) => state === "up" || state === "serverDraining");
  }
}
