import { GrpcServer, MetricRegistry, WindowBudget } from "@reachback/common";
import type {
  CertificateFacts,
  Clock,
  FamilyReading,
  FamilyTextSource,
  FlowPorts,
  KubernetesClient,
  Logger,
  Random,
  ReadinessCheck,
  SocketListener,
} from "@reachback/common";
import { ApiserverDuties, connectApiserver } from "./apiserver-duties.ts";
import type { ReviewedToken } from "./authentication/verdict.ts";
import { BackendRegistry } from "./backend/backend-registry.ts";
import { ConnectService } from "./backend/connect-service.ts";
import type { ConnectionPorts } from "./dial/connection.ts";
import { DialBroker } from "./dial/dial-broker.ts";
import { Frontends } from "./frontend/frontends.ts";
import { GracePeriod } from "./grace-period.ts";
import { AGENT_HTTP2, FIRST_REQUEST_TIMEOUT_MS, STOP_LINGER_MS } from "./limits.ts";
import { openAgentListener } from "./listeners.ts";
import type { ListenerPorts, OpenListener } from "./listeners.ts";
import { ServerMetrics } from "./metrics.ts";
import type { ServerOptions } from "./options.ts";
import { OpsListeners } from "./ops-listeners.ts";
import { serverReadinessChecks } from "./readiness.ts";
import { HandInService } from "./workers/hand-in-service.ts";
import type { ProxyStrategy } from "./options/proxy-strategies.ts";

export interface ServerPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Metrics of the process, which only its executable can make. */
  readonly processMetrics?: FamilyTextSource;
  /** Version of the program, for the user agent. */
  readonly version?: string;
  /** The environment: where a pod's apiserver is. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** This server is one of several workers. */
  readonly worker?: WorkerPorts;
}

/** What a worker has another way than a server that is alone. */
export interface WorkerPorts {
  /** Its sockets come from the primary. */
  readonly openListener: OpenListener;
  /** Where its neighbours hand in dials. */
  readonly handInPath: string;
  /** Told of each review of an agent's token; the other workers {@link Server.learnToken} from it. */
  readonly tokenReviewed: (reviewed: ReviewedToken) => void;
}

/** What a worker tells the primary of itself. */
export interface ServerState {
  readonly metrics: readonly FamilyReading[];
  readonly keyCounts: ReadonlyMap<ProxyStrategy, number>;
  /** Of this process's clock. */
  readonly lastDialAtMs: number | undefined;
}

/** A proxy server: its listeners, and everything behind them. */
export class Server {
  readonly #options: ServerOptions;
  readonly #ports: ServerPorts;
  /** Where agents are; a worker's neighbours add theirs. */
  readonly registry: BackendRegistry;
  /** What all tunnels share. */
  readonly flowPorts: FlowPorts;
  readonly #broker: DialBroker;
  readonly #frontends: Frontends;
  readonly #agentGrpcServer: GrpcServer;
  readonly #metricRegistry = new MetricRegistry();
  readonly #metrics: ServerMetrics;
  readonly #duties: ApiserverDuties;
  readonly #connectService: ConnectService;

  #agentListener: SocketListener | undefined;
  readonly #opsListeners = new OpsListeners();
  readonly #handIn: HandInService | undefined;
  readonly #certificates = new Map<string, CertificateFacts>();
  #stopped: Promise<void> | undefined;
  #connectionEnded: (() => void) | undefined;

  private constructor(
    options: ServerOptions,
    ports: ServerPorts,
    kubernetes: KubernetesClient | undefined,
  ) {
    const { clock, random, logger } = ports;
    this.#options = options;
    this.#ports = ports;
    this.#metrics = new ServerMetrics(this.#metricRegistry);
    if (ports.processMetrics !== undefined) this.#metricRegistry.addSource(ports.processMetrics);

    this.registry = new BackendRegistry(options.proxyStrategies, { zone: options.zone, random });
    const connectionPorts: ConnectionPorts = {
      clock,
      metrics: this.#metrics,
      logger,
      halfCloseTimeoutMs: options.flow.halfCloseTimeoutMs,
      connectionEnded: () => {
        this.#connectionEnded?.();
      },
    };
    const broker = new DialBroker(this.registry, options, connectionPorts);
    this.#broker = broker;
    this.#frontends = new Frontends(options, broker, { clock, random, metrics: this.#metrics });
    this.flowPorts = {
      limits: options.flow.limits,
      budget: new WindowBudget(options.flow.processWindowBytes),
    };
    if (ports.worker !== undefined) {
      this.#handIn = new HandInService(this.registry, options, connectionPorts);
    }
    this.#duties = new ApiserverDuties(options, {
      ...ports,
      kubernetes,
      metrics: this.#metrics,
      metricRegistry: this.#metricRegistry,
      tokenReviewed: ports.worker?.tokenReviewed,
    });
    this.#connectService = new ConnectService(
      options,
      this.registry,
      connectionPorts,
      this.flowPorts,
      random,
      this.#duties.authenticator,
    );
    this.#agentGrpcServer = new GrpcServer(
      {
        services: { AgentService: { Connect: this.#connectService.connect } },
        limits: AGENT_HTTP2,
        keepalive: {
          intervalMs: options.keepaliveTimeMs,
          timeoutMs: options.keepaliveTimeoutMs,
        },
        firstRequestTimeoutMs: FIRST_REQUEST_TIMEOUT_MS,
      },
      clock,
    );
    this.#provideGauges();
  }

  /**
   * Start a server: all its listeners, or none.
   *
   * @throws in upstream's words if one of them cannot be opened, or if the apiserver is needed and
   * nothing says where it is.
   */
  static async start(options: ServerOptions, ports: ServerPorts): Promise<Server> {
    const server = new Server(options, ports, await connectApiserver(options, ports));
    try {
      await server.#open();
    } catch (error) {
      server.#destroy();
      throw error;
    }
    return server;
  }

  /** Ports that were bound, for whoever asked for any free one: frontends in their order. */
  get ports(): { frontends: number[]; agent: number; health: number; admin: number } {
    return {
      frontends: this.#frontends.ports,
      agent: this.#agentListener?.port ?? 0,
      health: this.#opsListeners.healthPort,
      admin: this.#opsListeners.adminPort,
    };
  }

  /** Tunnels of agents. */
  get tunnelCount(): number {
    return this.registry.backends.size;
  }

  /** Connections and pending dials, those of neighbours included. */
  get heldCount(): number {
    return this.#broker.heldCount + (this.#handIn?.heldCount ?? 0);
  }

  /** Call `listener` whenever a connection or a dial is over. For one owner: whoever stops the server. */
  onConnectionEnded(listener: () => void): void {
    this.#connectionEnded = listener;
  }

  /** For whoever answers for several servers. */
  get state(): ServerState {
    return {
      metrics: this.#metricRegistry.readings(),
      keyCounts: this.registry.keyCounts(),
      lastDialAtMs: this.#metrics.lastDialAtMs,
    };
  }

  /**
   * Stop: at once, or with `gracefulShutdownTimeoutMs` in that time at most. Then agents and probes
   * are told at once, everything is served as before for `shutdownDelayMs`, and after that what is
   * open, until it has ended. What is cut is told so: CLOSE_RSP to gRPC frontends, a reset to CONNECT
   * clients. Idempotent; resolves when nothing is left.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  /** Another worker has had an agent's token reviewed. */
  learnToken(reviewed: ReviewedToken): void {
    this.#duties.authenticator?.learn(reviewed);
  }

  async #open(): Promise<void> {
    const { options, ports } = { options: this.#options, ports: this.#ports };
    ports.logger.info("server.identity", {
      serverId: options.serverId,
      serverCount: options.serverCount,
      strategies: options.proxyStrategies.join(","),
    });
    const listenerPorts: ListenerPorts = {
      ...ports,
      ...(ports.worker === undefined ? {} : { openListener: ports.worker.openListener }),
      certificateLoaded: (listener, leaf) => this.#certificates.set(listener, leaf),
      agentTurnedAway: () => {
        this.#metrics.tunnelTurnedAway();
      },
    };
    await this.#frontends.open(listenerPorts, (name, listener) => {
      this.#opened(name, listener);
    });
    this.#agentListener = await openAgentListener(
      options,
      (socket) => {
        this.#agentGrpcServer.accept(socket);
      },
      listenerPorts,
    );
    this.#opened("agents", this.#agentListener);
    this.#duties.start();
    if (ports.worker === undefined) {
      await this.#opsListeners.open(
        options,
        { metricRegistry: this.#metricRegistry, readinessChecks: this.#readinessChecks() },
        ports,
      );
    } else {
      await this.#handIn?.open(ports.worker.handInPath);
    }
  }

  #opened(listener: string, { name }: SocketListener): void {
    // A worker's are the primary's.
    if (this.#ports.worker !== undefined) return;
    this.#ports.logger.info("listener.opened", { listener, address: name });
  }

  #readinessChecks(): readonly ReadinessCheck[] {
    return serverReadinessChecks(
      {
        isStopping: () => this.#stopped !== undefined,
        keyCounts: () => this.registry.keyCounts(),
        required: this.#options.readyStrategies,
        certificates: () => this.#certificates,
        lastDialAtMs: () => this.#metrics.lastDialAtMs,
      },
      this.#ports.clock,
    );
  }

  async #stop(): Promise<void> {
    const { clock, logger } = this.#ports;
    const gracePeriod = new GracePeriod(this.#options, this, clock, logger);
    this.onConnectionEnded(() => {
      gracePeriod.connectionEnded();
    });
    if (this.#options.gracefulShutdownTimeoutMs > 0) {
      this.leave();
      await gracePeriod.acceptTime();
    }
    this.acceptNoMore();
    await gracePeriod.idle();
    await this.end();
  }

  // The steps of a stop. Of several workers it is the primary that takes them, all at once.

  /** Tell agents that the server is about to leave; everything is served as before. */
  leave(): void {
    // Agents that count leases must not wait for a server that goes.
    void this.#duties.leave();
    this.#connectService.leave();
  }

  /** Take no more sockets, agents and calls; what is open, and dials that neighbours hand in, go on. */
  acceptNoMore(): void {
    void this.#duties.stop();
    this.#agentListener?.close();
    // Frontends are asked to go elsewhere. Agents are not: Go's take it for the end of the tunnel.
    this.#frontends.close();
  }

  /** End whatever is open, each with its last word. Resolves when nothing is left. */
  async end(): Promise<void> {
    this.acceptNoMore();
    // Agents first, because what ends there is what frontends are told.
    for (const backend of [...this.registry.backends]) backend.end();
    this.#broker.end();
    this.#frontends.end();
    this.#handIn?.end();
    this.#agentGrpcServer.close();
    const sockets = [this.#agentListener, this.#frontends];
    const empty = sockets.flatMap((some) => some?.whenEmpty() ?? []);
    await this.#within(STOP_LINGER_MS, Promise.all(empty));
    await this.#duties.stop();
    this.#destroy();
    await this.#opsListeners.close();
  }

  /** Resolves with `event`, or after `timeoutMs`. */
  #within(timeoutMs: number, event: Promise<unknown>): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#ports.clock.schedule(timeoutMs, resolve);
      void event.then(() => {
        cancel();
        resolve();
      });
    });
  }

  #destroy(): void {
    void this.#duties.stop();
    this.#agentGrpcServer.destroy();
    this.#frontends.destroy();
    this.#agentListener?.destroy();
    this.#handIn?.destroy();
    void this.#opsListeners.close();
  }

  #provideGauges(): void {
    const { registry } = this;
    const { budget } = this.flowPorts;
    this.#metrics.gauges({
      grpcConnections: () =>
        new Map([
          ["Proxy", this.#frontends.streamCount],
          ["Connect", registry.backends.size],
        ]),
      httpConnections: () => this.#frontends.requestCount,
      pendingDials: () => this.#broker.pendingDialCount,
      establishedConnections: () => registry.connectionCount(),
      readyBackends: () => registry.keyCounts(),
      readyBackendConnections: () => registry.agentCount(),
      fullReceiveChannels: () => new Map([["Connect", registry.pausedCount()]]),
      windowGrowthBytes: () => budget.usedBytes,
      windowGrowthLimitBytes: () => budget.capacityBytes,
    });
  }
}
