import { mkdtempSync, rmSync } from "node:fs";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SocketListener, systemErrorText } from "@reachback/common";
import type {
  CertificateFacts,
  Clock,
  Logger,
  OpsRoute,
  ProcessMetrics,
  Random,
} from "@reachback/common";
import { GracePeriod } from "../grace-period.ts";
import { WORKER_END_TIMEOUT_MS } from "../limits.ts";
import { openAgentListener, openFrontendListener } from "../listeners.ts";
import type { ListenerPorts } from "../listeners.ts";
import { OpsListeners, serverProfilingRoutes } from "../ops-listeners.ts";
import type { ServerOptions } from "../options.ts";
import type { ProxyStrategy } from "../options/proxy-strategies.ts";
import { serverReadinessChecks } from "../readiness.ts";
import type { ToWorker, WorkerReport } from "./messages.ts";
import { Turns } from "./turns.ts";
import { WorkerMetrics } from "./worker-metrics.ts";
import { optionsOfWorker } from "./worker-options.ts";
import { WorkerSlot } from "./worker-slot.ts";

export interface PrimaryPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly processMetrics?: Pick<ProcessMetrics, "textsWith">;
  /** Version of the program, for the user agent. */
  readonly version?: string;
}

/**
 * The process above the workers. It accepts the sockets of all listeners and gives them to the workers
 * in turn, which do all else with them; it answers for all of them, and replaces those that die.
 */
export class Primary {
  readonly #options: ServerOptions;
  readonly #ports: PrimaryPorts;
  readonly #folder: string;
  readonly #slots: readonly WorkerSlot[];
  readonly #metrics: WorkerMetrics;
  readonly #listeners: SocketListener[] = [];
  readonly #opsListeners = new OpsListeners();
  readonly #certificates = new Map<string, CertificateFacts>();
  #stopped: Promise<void> | undefined;
  /** Set once the server stops. */
  #gracePeriod: GracePeriod | undefined;

  private constructor(options: ServerOptions, ports: PrimaryPorts) {
    this.#options = options;
    this.#ports = ports;
    this.#folder = makeFolder();
    this.#slots = Array.from(
      { length: options.workers },
      (_, index) =>
        new WorkerSlot(
          {
            type: "start",
            slot: index + 1,
            options: optionsOfWorker(options, index + 1),
            folder: this.#folder,
            version: ports.version ?? "unknown",
            debugEnabled: ports.logger.debugEnabled,
          },
          ports,
          {
            workerStarted: (slot) => {
              this.#introduce(slot);
            },
            workerLost: (slot) => {
              this.#metrics.workerLost(slot.lastReport);
              this.#tellOthers(slot, { type: "neighbour-gone", slot: slot.number });
            },
            tunnelChanged: (slot, change) => {
              this.#tellOthers(slot, {
                type: "neighbour",
                slot: slot.number,
                changes: [change],
              });
            },
            tokenReviewed: (slot, reviewed) => {
              this.#tellOthers(slot, { type: "token-reviewed", reviewed });
            },
            heldChanged: () => {
              this.#gracePeriod?.connectionEnded();
            },
          },
        ),
    );
    this.#metrics = new WorkerMetrics(
      { refresh: () => this.#refresh(), reports: () => this.#reports() },
      ports.processMetrics,
      () => this.#slots.filter(({ process }) => process !== undefined).length,
    );
  }

  /** Start all workers, then the listeners. @throws in upstream's words if that cannot be done. */
  static async start(options: ServerOptions, ports: PrimaryPorts): Promise<Primary> {
    const primary = new Primary(options, ports);
    try {
      await Promise.all(primary.#slots.map((slot) => slot.start()));
      await primary.#open();
    } catch (error) {
      await primary.#destroy();
      throw error;
    }
    return primary;
  }

  /** Ports that were bound, for whoever asked for any free one: frontends in their order. */
  get ports(): { frontends: number[]; agent: number; health: number; admin: number } {
    const ports = this.#listeners.map((listener) => listener.port);
    return {
      frontends: ports.slice(0, -1),
      agent: ports.at(-1) ?? 0,
      health: this.#opsListeners.healthPort,
      admin: this.#opsListeners.adminPort,
    };
  }

  /** Tunnels of agents, of all workers. */
  get tunnelCount(): number {
    return sum(this.#slots.map(({ tunnelCount }) => tunnelCount));
  }

  /** Connections and pending dials of all workers, while they stop; one that is handed over counts twice. */
  get heldCount(): number {
    return sum(this.#slots.map(({ heldCount }) => heldCount));
  }

  /**
   * Stop as {@link Server.stop} does, each step in all workers at once: none ends before the last
   * connection of all is over, because another may still hand it a dial. Idempotent.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    const { clock, logger } = this.#ports;
    this.#gracePeriod = new GracePeriod(this.#options, this, clock, logger);
    if (this.#options.gracefulShutdownTimeoutMs > 0) {
      await Promise.all(this.#slots.map((slot) => slot.leave()));
      await this.#gracePeriod.acceptTime();
    }
    for (const listener of this.#listeners) listener.close();
    await Promise.all(this.#slots.map((slot) => slot.acceptNoMore()));
    await this.#gracePeriod.idle();
    await Promise.all(this.#slots.map((slot) => slot.end(WORKER_END_TIMEOUT_MS)));
    await this.#destroy();
  }

  async #open(): Promise<void> {
    const options = this.#options;
    const { logger } = this.#ports;
    const listenerPorts: ListenerPorts = {
      ...this.#ports,
      openListener: ({ address, handshakeTimeoutMs }, handler) =>
        SocketListener.open({ address, handshakeTimeoutMs, isForAnother: true }, handler),
      certificateLoaded: (listener, leaf) => this.#certificates.set(listener, leaf),
    };
    for (const [index, spec] of options.frontends.entries()) {
      const accept = this.#distributorOf(index);
      const listener = await openFrontendListener(spec, options, accept, listenerPorts);
      this.#opened(`${spec.protocol} frontend`, listener, logger);
    }
    const accept = this.#distributorOf(options.frontends.length);
    const listener = await openAgentListener(options, accept, listenerPorts);
    this.#opened("agents", listener, logger);
    await this.#opsListeners.open(
      options,
      {
        metricRegistry: this.#metrics.registry,
        readinessChecks: serverReadinessChecks(
          {
            isStopping: () => this.#gracePeriod !== undefined,
            keyCounts: () => this.#keyCounts(),
            required: options.readyStrategies,
            certificates: () => this.#certificates,
            lastDialAtMs: () => this.#lastDialAtMs(),
          },
          this.#ports.clock,
        ),
        refresh: () => this.#refresh(),
        profiling: this.#profilingRoutes(),
      },
      this.#ports,
    );
  }

  #opened(name: string, listener: SocketListener, logger: Logger): void {
    this.#listeners.push(listener);
    logger.info("listener.opened", { listener: name, address: listener.name });
  }

  /** Gives sockets to the workers in turn, leaving out those that are behind or mute. */
  #distributorOf(listener: number): (socket: Socket) => void {
    const turns = new Turns();
    let isDropping = false;
    return (socket) => {
      const able = this.#slots.filter(({ process }) => process?.isBehind === false);
      const heard = able.filter(({ isMute }) => !isMute);
      // If all are mute, the machine is busy.
      const slots = heard.length > 0 ? heard : able;
      const process = slots[turns.next(socket.remoteAddress) % slots.length]?.process;
      if (process === undefined) {
        // All of them have died just now, or are behind. The peer will try again.
        socket.destroy();
        this.#metrics.socketDropped();
        if (!isDropping) {
          this.#ports.logger.warn("worker.none", {
            listener: this.#listeners[listener]?.name ?? "",
            hint: "new connections are closed: all workers have died (see worker.lost) or have too much to do (more --workers)",
          });
        }
      } else {
        process.sendSocket(listener, socket);
      }
      isDropping = process === undefined;
    };
  }

  /** Tell a worker that has just started about the agents of all others. */
  #introduce(slot: WorkerSlot): void {
    for (const other of this.#others(slot)) {
      if (other.tunnelCount === 0) continue;
      slot.send({ type: "neighbour", slot: other.number, changes: other.tunnels });
    }
  }

  #tellOthers(slot: WorkerSlot, message: ToWorker): void {
    for (const other of this.#others(slot)) other.send(message);
  }

  #others(slot: WorkerSlot): readonly WorkerSlot[] {
    return this.#slots.filter((other) => other !== slot);
  }

  async #refresh(): Promise<void> {
    await Promise.all(this.#slots.map((slot) => slot.refresh()));
  }

  #reports(): readonly WorkerReport[] {
    return this.#slots.flatMap(({ lastReport }) => lastReport ?? []);
  }

  /** Any worker can do what one of them can, so the best one counts. */
  #keyCounts(): Map<ProxyStrategy, number> {
    const counts = new Map(this.#options.proxyStrategies.map((strategy) => [strategy, 0]));
    for (const { state } of this.#reports()) {
      for (const [strategy, count] of state.keyCounts) {
        counts.set(strategy, Math.max(count, counts.get(strategy) ?? 0));
      }
    }
    return counts;
  }

  #lastDialAtMs(): number | undefined {
    const ages = this.#reports().flatMap(({ state: { lastDialAtMs }, nowMs }) =>
      lastDialAtMs === undefined ? [] : [nowMs - lastDialAtMs],
    );
    return ages.length === 0 ? undefined : this.#ports.clock.now() - Math.min(...ages);
  }

  /** `?worker=N` asks for the profile of that worker, nothing for this process's. */
  #profilingRoutes(): readonly OpsRoute[] {
    return serverProfilingRoutes(this.#options, this.#ports).map(({ path, handler }) => ({
      path,
      handler: async (request) => {
        const number = request.query.get("worker");
        if (number === null) return handler(request);
        const slot = this.#slots.find((each) => String(each.number) === number);
        if (slot === undefined) {
          return { status: 404, body: `no worker ${number} of ${this.#slots.length}\n` };
        }
        const answer = await slot.process?.profile(request.path, request.rawQuery);
        return answer ?? { status: 503, body: `worker ${number} has died or does not answer\n` };
      },
    }));
  }

  async #destroy(): Promise<void> {
    for (const listener of this.#listeners) listener.destroy();
    await Promise.all(this.#slots.map((slot) => slot.kill()));
    await this.#opsListeners.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}

/** For the workers' own sockets, and nobody else's eyes. */
function makeFolder(): string {
  try {
    return mkdtempSync(join(tmpdir(), "reachback-workers-"));
  } catch (error) {
    const reason = systemErrorText(error as NodeJS.ErrnoException);
    throw new Error(
      `--workers needs a temporary folder for sockets, and ${tmpdir()} is none: ${reason}; ` +
        "set TMPDIR to one that can be written to",
      { cause: error },
    );
  }
}
