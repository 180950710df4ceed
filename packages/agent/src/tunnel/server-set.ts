import { Backoff, goCodeName, jittered } from "@reachback/common";
import type { CancelTimer, Clock, GrpcStatus, Logger, Random } from "@reachback/common";
import type { Tunnel } from "./tunnel.ts";
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

/**
 * Keeps one tunnel to each server.
 *
 * All servers answer at one address, behind something that spreads connections over them. Each says
 * in its answer who it is and how many there are, so the agent connects again and again until it
 * has that many; a server that it has a tunnel to already is left at once.
 */
export class ServerSet {
  readonly #options: ServerSetOptions;
  readonly #connector: TunnelConnector;
  readonly #ports: ServerSetPorts;
  readonly #onConnectionGone: () => void;
  readonly #backoff: Backoff;
  readonly #tunnels = new Map<string, Tunnel>();
  #serverCount = 0;
  #attempt: AbortController | undefined;
  #cancelPause: CancelTimer | undefined;
  #isStopped = false;
  #isDraining = false;

  constructor(
    options: ServerSetOptions,
    connector: TunnelConnector,
    ports: ServerSetPorts,
    onConnectionGone: () => void,
  ) {
    this.#options = options;
    this.#connector = connector;
    this.#ports = ports;
    this.#onConnectionGone = onConnectionGone;
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

  get tunnelCount(): number {
    return this.#tunnels.size;
  }

  /** How many servers there are, as far as is known. */
  get serverCount(): number {
    return this.#serverCount > 0 ? this.#serverCount : 1;
  }

  /** Connections over all tunnels. */
  get connectionCount(): number {
    let count = 0;
    for (const tunnel of this.#tunnels.values()) count += tunnel.connectionCount;
    return count;
  }

  /** Whether no tunnel has anything left to do. */
  get isIdle(): boolean {
    for (const tunnel of this.#tunnels.values()) if (!tunnel.isIdle) return false;
    return true;
  }

  start(): void {
    void this.#sync();
  }

  /** Open no more tunnels, and ask the servers for no more connections over those there are. */
  drain(): void {
    this.#isDraining = true;
    this.#stopConnecting();
    for (const tunnel of this.#tunnels.values()) tunnel.drain();
  }

  /** End all tunnels. */
  stop(): void {
    this.#isStopped = true;
    this.#stopConnecting();
    for (const tunnel of this.#tunnels.values()) tunnel.end();
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
    return this.#options.syncForever || this.#tunnels.size < this.serverCount;
  }

  /** Returns how long to wait before the next attempt. */
  async #connect(): Promise<number> {
    const { random, logger } = this.#ports;
    const { address } = this.#connector;
    const attempt = new AbortController();
    this.#attempt = attempt;
    try {
      if (logger.debugEnabled) logger.debug("tunnel.connecting", { address });
      await this.#open(attempt.signal);
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

  async #open(signal: AbortSignal): Promise<void> {
    const { logger } = this.#ports;
    let opened: OpenTunnel | undefined = undefined;
    let closedWith: GrpcStatus | undefined;
    const events: TunnelEvents = {
      closed: (status) => {
        closedWith = status;
        if (opened !== undefined) this.#lost(opened, status);
      },
      connectionGone: this.#onConnectionGone,
    };
    const open = await this.#connector.connect(events, signal);
    const { tunnel, serverId, serverCount } = open;
    if (closedWith !== undefined) throw new Error(`closed at once: ${closedWith.message}`);
    if (this.#tunnels.has(serverId)) {
      if (logger.debugEnabled) logger.debug("tunnel.duplicate", { serverId });
      tunnel.end();
      return;
    }
    opened = open;
    this.#tunnels.set(serverId, tunnel);
    this.#serverCount = serverCount;
    logger.info("tunnel.opened", { serverId, serverCount, address: this.#connector.address });
  }

  #lost({ serverId, tunnel }: OpenTunnel, status: GrpcStatus): void {
    if (this.#tunnels.get(serverId) === tunnel) this.#tunnels.delete(serverId);
    this.#ports.logger.warn("tunnel.lost", {
      serverId,
      code: goCodeName(status.code),
      error: status.message,
    });
    this.#onConnectionGone();
  }
}
