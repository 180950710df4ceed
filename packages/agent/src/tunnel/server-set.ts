import { Backoff, goCodeName, jittered } from "@reachback/common";
import type { CancelTimer, Clock, GrpcStatus, Logger, Random } from "@reachback/common";
import { announcedServerCount } from "../servers/server-count.ts";
import type { ServerCountSource } from "../servers/server-count.ts";
import type { OpenTunnel, TunnelConnector, TunnelEvents } from "./tunnel-connector.ts";

export interface ServerSetOptions {
  /** The pause between attempts while all goes well, and the first after a failure. */
  readonly syncIntervalMs: number;
  /** The longest pause after failures. */
  readonly syncIntervalCapMs: number;
  /** Go on looking for servers when there is a tunnel to each that is known of. */
  readonly syncForever: boolean;
}

export interface ServerSetPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

/** Upstream's figures: each pause is half as long again, and up to a tenth longer at random. */
const BACKOFF_FACTOR = 1.5;
const JITTER = 0.1;

/** Opens tunnels; see {@link TunnelConnector}. */
export type TunnelOpener = Pick<TunnelConnector, "address" | "connect">;

/** A tunnel of which something is left. */
interface HeldTunnel {
  readonly open: OpenTunnel;
  /** - `up`: in use; `ending`: we have ended it; `over`: closed, its socket may still be open. */
  state: "up" | "ending" | "over";
  isSocketClosed: boolean;
}

/**
 * Keeps one tunnel to each server.
 *
 * All servers answer at one address, behind something that spreads connections over them. Each says
 * in its answer who it is and how many there are, so the agent connects again and again until it
 * has that many; a server that it has a tunnel to already is left at once.
 */
export class ServerSet {
  readonly #options: ServerSetOptions;
  readonly #connector: TunnelOpener;
  readonly #ports: ServerSetPorts;
  readonly #onChange: () => void;
  readonly #countSource: ServerCountSource;
  readonly #backoff: Backoff;
  /** The tunnel to each server, by its id; not those to servers that take their leave. */
  readonly #tunnels = new Map<string, HeldTunnel>();
  /** These, and all others of which something is left. */
  readonly #held = new Set<HeldTunnel>();
  /** What the last server that answered said. */
  #serverCount = 0;
  #attempt: AbortController | undefined;
  #cancelPause: CancelTimer | undefined;
  #isStopped = false;
  #isDraining = false;

  /**
   * @param onChange - A tunnel or a connection is gone.
   * @param countSource - How many servers there are; asked at each look.
   */
  constructor(
    options: ServerSetOptions,
    connector: TunnelOpener,
    ports: ServerSetPorts,
    onChange: () => void,
    countSource: ServerCountSource = announcedServerCount,
  ) {
    this.#options = options;
    this.#connector = connector;
    this.#ports = ports;
    this.#onChange = onChange;
    this.#countSource = countSource;
    this.#backoff = new Backoff(
      {
        initialMs: options.syncIntervalMs,
        capMs: options.syncIntervalCapMs,
        factor: BACKOFF_FACTOR,
        jitter: JITTER,
      },
      ports.random,
    );
  }

  /** Tunnels in use. */
  get tunnelCount(): number {
    let count = 0;
    for (const { state } of this.#held) if (state === "up") count++;
    return count;
  }

  /** How many servers there are, as far as is known. */
  get serverCount(): number {
    return this.#countSource.count(this.#serverCount === 0 ? 1 : this.#serverCount);
  }

  /** Connections over all tunnels. */
  get connectionCount(): number {
    let count = 0;
    for (const { open } of this.#held) count += open.tunnel.connectionCount;
    return count;
  }

  /** Whether no tunnel has anything left to do. */
  get isIdle(): boolean {
    for (const { open } of this.#held) if (!open.tunnel.isIdle) return false;
    return true;
  }

  /** Whether nothing is left of any tunnel. */
  get isEmpty(): boolean {
    return this.#held.size === 0;
  }

  start(): void {
    this.#countSource.start(() => undefined);
    void this.#sync();
  }

  /** Open no more tunnels, and ask the servers for no more connections over those there are. */
  drain(): void {
    this.#isDraining = true;
    this.#stopConnecting();
    for (const { open, state } of this.#held) if (state === "up") open.tunnel.drain();
  }

  /** End all tunnels, and what is left of their connections. */
  stop(): void {
    this.#isStopped = true;
    this.#countSource.stop();
    this.#stopConnecting();
    for (const held of [...this.#held]) this.#end(held);
  }

  #stopConnecting(): void {
    this.#attempt?.abort();
    this.#cancelPause?.();
  }

  /** One attempt if one is wanted, then the pause before the next. Never rejects. */
  async #sync(): Promise<void> {
    const pauseMs = this.#wantsMore
      ? await this.#connect()
      : jittered(this.#options.syncIntervalMs, JITTER, this.#ports.random);
    if (this.#isStopped || this.#isDraining) return;
    this.#cancelPause = this.#ports.clock.schedule(pauseMs, () => {
      void this.#sync();
    });
  }

  get #wantsMore(): boolean {
    // Upstream's agent takes a negative count for one that is never reached.
    const isEnough = this.serverCount > 0 && this.#tunnels.size >= this.serverCount;
    return this.#options.syncForever || !isEnough;
  }

  /** Returns how long to wait before the next attempt. */
  async #connect(): Promise<number> {
    const { random, logger } = this.#ports;
    const { address } = this.#connector;
    const attempt = new AbortController();
    this.#attempt = attempt;
    try {
      if (logger.debugEnabled) logger.debug("tunnel.connecting", { address });
      await this.#connector.connect((open) => this.#accepted(open), attempt.signal);
      this.#backoff.reset();
      return jittered(this.#options.syncIntervalMs, JITTER, random);
    } catch (error) {
      if (!attempt.signal.aborted) {
        const reason = error instanceof Error ? error.message : String(error);
        logger.warn("tunnel.refused", { address, error: reason });
      }
      return this.#backoff.next();
    } finally {
      this.#attempt = undefined;
    }
  }

  #accepted(open: OpenTunnel): TunnelEvents {
    const { serverId, serverCount } = open;
    const { logger } = this.#ports;
    const held: HeldTunnel = { open, state: "up", isSocketClosed: false };
    this.#held.add(held);
    this.#serverCount = serverCount;
    if (this.#tunnels.has(serverId)) {
      if (logger.debugEnabled) logger.debug("tunnel.duplicate", { serverId });
      this.#end(held);
    } else {
      this.#tunnels.set(serverId, held);
      logger.info("tunnel.opened", { serverId, serverCount, address: this.#connector.address });
    }
    return {
      serverLeaving: () => {
        if (held.state !== "up") return;
        logger.info("tunnel.draining", { serverId });
        this.#replace(held);
      },
      closed: (status) => {
        this.#closed(held, status);
      },
      connectionGone: () => {
        this.#release(held);
      },
      gone: () => {
        held.isSocketClosed = true;
        this.#release(held);
      },
    };
  }

  #end(held: HeldTunnel): void {
    if (held.state === "up") held.state = "ending";
    held.open.end();
  }

  /** The tunnel counts no longer, so that another one to its server may be opened. */
  #replace(held: HeldTunnel): void {
    const { serverId } = held.open;
    if (this.#tunnels.get(serverId) === held) this.#tunnels.delete(serverId);
  }

  #closed(held: HeldTunnel, { code, message }: GrpcStatus): void {
    const wasUp = held.state === "up";
    held.state = "over";
    this.#replace(held);
    if (wasUp) {
      const { serverId } = held.open;
      this.#ports.logger.warn("tunnel.lost", { serverId, code: goCodeName(code), error: message });
    }
    this.#onChange();
  }

  /** Forget the tunnel once nothing is left of it. */
  #release(held: HeldTunnel): void {
    if (held.isSocketClosed && held.open.tunnel.isIdle) this.#held.delete(held);
    this.#onChange();
  }
}
