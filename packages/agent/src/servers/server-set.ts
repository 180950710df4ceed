import { goCodeName } from "@reachback/common";
import type { Clock, GrpcStatus, Logger, Random } from "@reachback/common";
import type { AgentMetrics } from "../metrics.ts";
import type {
  LeaveReason,
  OpenTunnel,
  TunnelConnector,
  TunnelEvents,
} from "../tunnel/tunnel-connector.ts";
import type { AddressSource } from "./address-source.ts";
import { ConnectAttempts } from "./connect-attempts.ts";
import type { AttemptOutcome, AttemptPace, WantedTunnels } from "./connect-attempts.ts";
import type { HeldTunnel } from "./held-tunnel.ts";
import { HeldTunnels } from "./held-tunnels.ts";
import { addressText } from "./server-address.ts";
import type { ServerAddress } from "./server-address.ts";
import { combinedCount } from "./server-count.ts";
import type { ServerCountSource } from "./server-count.ts";

export interface ServerSetPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Pick<AgentMetrics, "tunnelAttempted">;
}

/** Where servers are, and how many where that says nothing. */
export interface ServerSources {
  readonly addresses: AddressSource;
  /** Asked only where servers share addresses. */
  readonly count: ServerCountSource;
}

/** Opens tunnels; see {@link TunnelConnector}. */
export type TunnelOpener = Pick<TunnelConnector, "connect">;

/** What a server's answer came to; `leaving`: it has said before that it takes its leave. */
type AcceptOutcome = AttemptOutcome | "leaving";

/** The place of all servers that share addresses. */
const SHARED_PLACE = "";

/**
 * Keeps one tunnel to each server: compares what is wanted with what there is whenever either changes,
 * and does nothing in between.
 *
 * Where each address is a server, each wants its tunnel; an address that leads to a server which
 * another one has led to (its other address family, say) is content with that. Where servers share
 * addresses, there is a number of them, and connections are made until so many have answered.
 *
 * A tunnel too many drains away: the server is asked for no new connections, and once those that are
 * open have ended it is closed. Where each address is a server, that is a tunnel whose addresses are
 * all gone; where they are shared, the one with the fewest connections, among equals the oldest.
 */
export class ServerSet {
  readonly #pace: AttemptPace;
  readonly #connector: TunnelOpener;
  readonly #addresses: AddressSource;
  readonly #countSource: ServerCountSource;
  readonly #ports: ServerSetPorts;
  readonly #onChange: () => void;
  /** How tunnels are got at each place: an address, or all that servers share. */
  readonly #places = new Map<string, ConnectAttempts>();
  readonly #held = new HeldTunnels();
  /** What the last server that answered said; matters while there is no tunnel. */
  #lastAnnounced = 0;
  /** Which of the shared addresses is next. */
  #turn = 0;
  #isClosing = false;

  /** @param onChange - A tunnel or a connection is gone. */
  constructor(
    pace: AttemptPace,
    connector: TunnelOpener,
    { addresses, count }: ServerSources,
    ports: ServerSetPorts,
    onChange: () => void,
  ) {
    this.#pace = pace;
    this.#connector = connector;
    this.#addresses = addresses;
    this.#countSource = count;
    this.#ports = ports;
    this.#onChange = onChange;
  }

  /** Tunnels that are open, those that drain included. */
  get tunnelCount(): number {
    return this.#held.all().filter(({ isOpen }) => isOpen).length;
  }

  /** Servers that have the tunnel which is wanted to them. */
  get connectedCount(): number {
    return this.#held.up().length;
  }

  /** How many servers there are, as far as is known: so many tunnels are wanted. */
  get serverCount(): number {
    if (this.#isShared) return this.#sharedCount();
    let missing = 0;
    for (const key of this.#places.keys()) missing += this.#wantedAt(key).missing;
    return Math.max(1, this.connectedCount + missing);
  }

  /** Connections over all tunnels. */
  get connectionCount(): number {
    let count = 0;
    for (const { open } of this.#held.all()) count += open.tunnel.connectionCount;
    return count;
  }

  /** Whether no tunnel has anything left to do. */
  get isIdle(): boolean {
    return this.#held.all().every(({ open }) => open.tunnel.isIdle);
  }

  /** Whether nothing is left of any tunnel. */
  get isEmpty(): boolean {
    return this.#held.size === 0;
  }

  start(): void {
    if (this.#isShared) this.#addPlace(SHARED_PLACE, () => this.#nextSharedAddress());
    this.#addresses.start(() => {
      this.#updatePlaces();
      this.#reconcile();
    });
    this.#countSource.start(() => {
      this.#reconcile();
    });
    this.#updatePlaces();
    this.#reconcile();
  }

  /** Open no more tunnels, and ask the servers for no more connections over those there are. */
  drain(): void {
    this.#stopConnecting();
    for (const held of this.#held.all()) if (held.isOpen) held.open.tunnel.drain();
  }

  /** End all tunnels, and what is left of their connections. */
  stop(): void {
    this.#stopConnecting();
    for (const held of this.#held.all()) held.end();
  }

  #stopConnecting(): void {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#addresses.stop();
    this.#countSource.stop();
    for (const attempts of this.#places.values()) attempts.stop();
  }

  // Wanted and actual

  #reconcile(): void {
    this.#releaseSurplus();
    for (const attempts of [...this.#places.values()]) attempts.reconcile();
  }

  /** Make a place of each address where each is a server, and forget those that are gone. */
  #updatePlaces(): void {
    if (this.#isShared) return;
    const current = new Map(this.#addresses.current.map((each) => [addressText(each), each]));
    for (const [key, attempts] of [...this.#places]) {
      if (current.has(key)) continue;
      attempts.stop();
      this.#places.delete(key);
    }
    for (const [key, address] of current) {
      if (!this.#places.has(key)) this.#addPlace(key, () => address);
    }
  }

  #addPlace(key: string, nextAddress: () => ServerAddress | undefined): void {
    const attempts = new ConnectAttempts(
      this.#pace,
      this.#ports,
      (...attempt) => this.#connect(key, nextAddress(), ...attempt),
      () => this.#wantedAt(key),
    );
    this.#places.set(key, attempts);
  }

  #nextSharedAddress(): ServerAddress | undefined {
    const { current } = this.#addresses;
    return current[this.#turn++ % current.length];
  }

  #wantedAt(key: string): WantedTunnels {
    if (!this.#isShared) {
      const isMissing = !this.#held.up().some(({ places }) => places.has(key));
      return { servers: 1, missing: isMissing ? 1 : 0 };
    }
    const count = this.#sharedCount();
    const servers = count < 0 ? Number.POSITIVE_INFINITY : count;
    return { servers, missing: servers - this.connectedCount };
  }

  #sharedCount(): number {
    const announced = this.#held.up().map(({ announcedCount }) => announcedCount);
    if (announced.length === 0) announced.push(this.#lastAnnounced);
    return this.#countSource.count(combinedCount(announced));
  }

  #releaseSurplus(): void {
    if (this.#isClosing) return;
    const up = this.#held.up();
    if (!this.#isShared) {
      for (const held of up) {
        if (![...held.places].some((key) => this.#places.has(key))) this.#release(held);
      }
      return;
    }
    const wanted = this.#sharedCount();
    if (wanted < 0) return;
    const surplus = [...up]
      .sort((a, b) => a.open.tunnel.connectionCount - b.open.tunnel.connectionCount)
      .slice(0, Math.max(0, up.length - wanted));
    for (const held of surplus) this.#release(held);
  }

  #release(held: HeldTunnel): void {
    const { serverId, tunnel } = held.open;
    this.#ports.logger.info("tunnel.surplus", {
      serverId,
      address: held.address,
      connections: tunnel.connectionCount,
    });
    held.drainAway(this.#ports.clock);
  }

  // Attempts

  async #connect(
    key: string,
    address: ServerAddress | undefined,
    signal: AbortSignal,
    handshakeTurn: () => Promise<void>,
  ): Promise<AttemptOutcome> {
    const { logger, metrics } = this.#ports;
    if (address === undefined) throw new Error("no address of a server is known");
    const text = addressText(address);
    let outcome: AcceptOutcome | undefined;
    if (logger.debugEnabled) logger.debug("tunnel.connecting", { address: text });
    try {
      const answer = await this.#connector.connect(address, {
        signal,
        handshakeTurn,
        exceptServers: () => this.#exceptServers(),
        accepted: (open) => {
          const accepted = this.#accepted(key, text, open);
          outcome = accepted.outcome;
          return accepted.events;
        },
      });
      if (answer === "turned away") {
        if (logger.debugEnabled)
          logger.debug("tunnel.duplicate", { address: text, turnedAway: true });
        outcome = "duplicate";
      }
      // It is asked again, but not as eagerly as if somebody else might answer.
      if (outcome === undefined || outcome === "leaving") {
        throw new Error("answer: the server is about to leave");
      }
      metrics.tunnelAttempted(outcome);
      return outcome;
    } catch (error) {
      if (!signal.aborted) {
        metrics.tunnelAttempted("failed");
        const reason = error instanceof Error ? error.message : String(error);
        logger.warn("tunnel.refused", { address: text, error: reason });
        this.#addresses.suspect();
      }
      throw error;
    }
  }

  /**
   * Servers that need not answer an attempt: it would be a duplicate. None as soon as one of them is not
   * ours, since others like it may be met.
   */
  #exceptServers(): readonly string[] {
    const held = this.#held.excludingOthers();
    if (!this.#isShared || !held.every(({ open }) => open.tunnel.turnsAway)) return [];
    return held.map(({ open }) => open.serverId);
  }

  #accepted(
    key: string,
    address: string,
    open: OpenTunnel,
  ): { events: TunnelEvents; outcome: AcceptOutcome } {
    const { serverId, serverCount } = open;
    const { clock, logger } = this.#ports;
    const known = this.#held.to(serverId);
    const held = this.#held.hold(open, address, clock.now());
    this.#lastAnnounced = serverCount;
    let outcome: AcceptOutcome = "opened";
    if (known === undefined) {
      held.places.add(key);
      held.announcedCount = serverCount;
      logger.info("tunnel.opened", { serverId, serverCount, address });
    } else {
      outcome = this.#isShared || known.state === "up" ? "duplicate" : "leaving";
      known.places.add(key);
      known.announcedCount = serverCount;
      this.#logDuplicate(known, address);
      held.end();
    }
    // The attempt itself looks at what is missing now.
    this.#releaseSurplus();
    return { events: this.#eventsOf(held), outcome };
  }

  get #isShared(): boolean {
    return this.#addresses.isShared;
  }

  #logDuplicate({ open: { serverId }, address: other }: HeldTunnel, address: string): void {
    const { logger } = this.#ports;
    if (this.#isShared) {
      if (logger.debugEnabled) logger.debug("tunnel.duplicate", { serverId, address });
    } else {
      logger.info("tunnel.duplicate", {
        serverId,
        address,
        other,
        hint: "both addresses lead to one server; if they should not, give each server its own --server-id",
      });
    }
  }

  // Tunnels

  #eventsOf(held: HeldTunnel): TunnelEvents {
    return {
      serverLeaving: (reason) => {
        this.#serverLeaving(held, reason);
      },
      closed: (status) => {
        this.#closed(held, status);
      },
      connectionGone: () => {
        held.endIfDrained();
        this.#forgetIfGone(held);
      },
      gone: () => {
        held.isSocketClosed = true;
        this.#forgetIfGone(held);
      },
    };
  }

  #serverLeaving(held: HeldTunnel, reason: LeaveReason): void {
    if (held.state !== "up") return;
    const { serverId } = held.open;
    this.#ports.logger.info("tunnel.draining", { serverId, address: held.address, reason });
    held.state = reason === "drain" ? "serverDraining" : "connectionLeaving";
    this.#replace(held);
  }

  #closed(held: HeldTunnel, { code, message }: GrpcStatus): void {
    const { isOpen, state } = held;
    const { serverId } = held.open;
    held.over();
    if (isOpen) {
      const { address } = held;
      const error = { code: goCodeName(code), error: message };
      this.#ports.logger.warn("tunnel.lost", { serverId, address, ...error });
    }
    if (state === "up") this.#replace(held);
    // A server that is drained away may end what nobody needs any more.
    else this.#reconcile();
    this.#onChange();
  }

  /** The tunnel counts no longer: another one is wanted in its place. */
  #replace(held: HeldTunnel): void {
    if (this.#isClosing) return;
    const livedMs = this.#ports.clock.now() - held.openedAtMs;
    for (const key of held.places) this.#places.get(key)?.lost(livedMs);
    this.#addresses.suspect();
    this.#reconcile();
  }

  #forgetIfGone(held: HeldTunnel): void {
    this.#held.release(held);
    this.#onChange();
  }
}
