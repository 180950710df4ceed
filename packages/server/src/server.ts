import type { Socket } from "node:net";
import {
  GrpcServer,
  MetricRegistry,
  OpsListener,
  metricsRoute,
  profilingRoutes,
  serverHealthRoutes,
  WindowBudget,
} from "@reachback/common";
import type {
  CertificateFacts,
  Clock,
  FamilyTextSource,
  KubernetesClient,
  Logger,
  Random,
  ReadinessCheck,
  SocketListener,
} from "@reachback/common";
import { ApiserverDuties, connectApiserver } from "./apiserver-duties.ts";
import { BackendRegistry } from "./backend/backend-registry.ts";
import { ConnectService } from "./backend/connect-service.ts";
import type { ConnectionPorts } from "./dial/connection.ts";
import { DialBroker } from "./dial/dial-broker.ts";
import { ConnectFrontend } from "./frontend/connect-frontend.ts";
import { GrpcFrontend } from "./frontend/grpc-frontend.ts";
import { GracePeriod } from "./grace-period.ts";
import {
  AGENT_HTTP2,
  CONNECT_SOCKET,
  FIRST_REQUEST_TIMEOUT_MS,
  FRONTEND_HTTP2,
  HEAD_TIMEOUT_MS,
  FRONTEND_KEEPALIVE_TIMEOUT_MS,
  MAX_CONNECT_HEAD_BYTES,
  REFUSAL_LINGER_MS,
  STOP_LINGER_MS,
} from "./limits.ts";
import { openAgentListener, openFrontendListener } from "./listeners.ts";
import type { ListenerPorts } from "./listeners.ts";
import { ServerMetrics } from "./metrics.ts";
import type { ServerOptions } from "./options.ts";
import type { FrontendProtocol } from "./options/frontend-spec.ts";
import { serverReadinessChecks } from "./readiness.ts";

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
}

/** A proxy server: its listeners, and everything behind them. */
export class Server {
  readonly #options: ServerOptions;
  readonly #ports: ServerPorts;
  readonly #registry: BackendRegistry;
  readonly #broker: DialBroker;
  readonly #grpcFrontend: GrpcFrontend;
  readonly #connectFrontend: ConnectFrontend;
  readonly #frontendGrpcServer: GrpcServer;
  readonly #agentGrpcServer: GrpcServer;
  readonly #metricRegistry = new MetricRegistry();
  readonly #metrics: ServerMetrics;
  readonly #duties: ApiserverDuties;
  readonly #connectService: ConnectService;

  readonly #frontendListeners: SocketListener[] = [];
  #agentListener: SocketListener | undefined;
  #healthListener: OpsListener | undefined;
  #adminListener: OpsListener | undefined;
  readonly #certificates = new Map<string, CertificateFacts>();
  #stopped: Promise<void> | undefined;
  /** Set once the server stops. */
  #gracePeriod: GracePeriod | undefined;

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

    this.#registry = new BackendRegistry(options.proxyStrategies, { zone: options.zone, random });
    const connectionPorts: ConnectionPorts = {
      clock,
      metrics: this.#metrics,
      logger,
      halfCloseTimeoutMs: options.flow.halfCloseTimeoutMs,
      connectionEnded: () => {
        this.#gracePeriod?.connectionEnded();
      },
    };
    const broker = new DialBroker(this.#registry, options, connectionPorts);
    this.#broker = broker;
    this.#grpcFrontend = new GrpcFrontend(broker, this.#metrics);
    this.#connectFrontend = new ConnectFrontend(
      {
        headTimeoutMs: HEAD_TIMEOUT_MS,
        maxHeadBytes: MAX_CONNECT_HEAD_BYTES,
        lingerMs: REFUSAL_LINGER_MS,
        socketLimits: CONNECT_SOCKET,
      },
      broker,
      clock,
      random,
    );
    this.#frontendGrpcServer = new GrpcServer(
      {
        services: { ProxyService: { Proxy: this.#grpcFrontend.proxy } },
        limits: FRONTEND_HTTP2,
        keepalive: {
          intervalMs: options.frontendKeepaliveTimeMs,
          timeoutMs: FRONTEND_KEEPALIVE_TIMEOUT_MS,
        },
        firstRequestTimeoutMs: FIRST_REQUEST_TIMEOUT_MS,
      },
      clock,
    );
    const flowPorts = {
      limits: options.flow.limits,
      budget: new WindowBudget(options.flow.processWindowBytes),
    };
    this.#duties = new ApiserverDuties(options, {
      ...ports,
      kubernetes,
      metrics: this.#metrics,
      metricRegistry: this.#metricRegistry,
    });
    this.#connectService = new ConnectService(
      options,
      this.#registry,
      connectionPorts,
      flowPorts,
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
      frontends: this.#frontendListeners.map((listener) => listener.port),
      agent: this.#agentListener?.port ?? 0,
      health: this.#healthListener?.port ?? 0,
      admin: this.#adminListener?.port ?? 0,
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

  async #open(): Promise<void> {
    const { options, ports } = { options: this.#options, ports: this.#ports };
    ports.logger.info("server.identity", {
      serverId: options.serverId,
      serverCount: options.serverCount,
      strategies: options.proxyStrategies.join(","),
    });
    const listenerPorts: ListenerPorts = {
      ...ports,
      certificateLoaded: (listener, leaf) => this.#certificates.set(listener, leaf),
    };
    for (const spec of options.frontends) {
      const accept = this.#acceptorOf(spec.protocol);
      const listener = await openFrontendListener(spec, options, accept, listenerPorts);
      this.#frontendListeners.push(listener);
      ports.logger.info("listener.opened", {
        listener: `${spec.protocol} frontend`,
        address: listener.name,
      });
    }
    this.#agentListener = await openAgentListener(
      options,
      (socket) => {
        this.#agentGrpcServer.accept(socket);
      },
      listenerPorts,
    );
    ports.logger.info("listener.opened", { listener: "agents", address: this.#agentListener.name });
    this.#duties.start();
    this.#adminListener = await OpsListener.open(
      {
        name: "admin server",
        host: options.adminBindAddress,
        port: options.adminPort,
        routes: [
          metricsRoute(this.#metricRegistry),
          ...profilingRoutes(
            { enabled: options.enableProfiling, contention: options.enableContentionProfiling },
            ports,
          ),
        ],
      },
      ports,
    );
    this.#healthListener = await OpsListener.open(
      {
        name: "health server",
        host: options.healthBindAddress,
        port: options.healthPort,
        routes: [
          ...serverHealthRoutes(this.#readinessChecks()),
          metricsRoute(this.#metricRegistry),
        ],
      },
      ports,
    );
  }

  #readinessChecks(): readonly ReadinessCheck[] {
    return serverReadinessChecks(
      {
        isStopping: () => this.#gracePeriod !== undefined,
        keyCounts: () => this.#registry.keyCounts(),
        required: this.#options.readyStrategies,
        certificates: () => this.#certificates,
        lastDialAtMs: () => this.#metrics.lastDialAtMs,
      },
      this.#ports.clock,
    );
  }

  #acceptorOf(protocol: FrontendProtocol): (socket: Socket) => void {
    return protocol === "grpc"
      ? (socket) => {
          this.#frontendGrpcServer.accept(socket);
        }
      : (socket) => {
          this.#connectFrontend.accept(socket);
        };
  }

  async #stop(): Promise<void> {
    const { clock, logger } = this.#ports;
    const held = {
      tunnels: () => this.#registry.backends.size,
      connections: () => this.#broker.heldCount,
    };
    this.#gracePeriod = new GracePeriod(this.#options, held, clock, logger);
    // Agents that count leases must not wait for a server that goes.
    void this.#duties.leave();
    if (this.#options.gracefulShutdownTimeoutMs > 0) {
      this.#connectService.leave();
      await this.#gracePeriod.acceptTime();
    }
    const unpublished = this.#duties.stop();
    for (const listener of this.#frontendListeners) listener.close();
    this.#agentListener?.close();
    this.#connectFrontend.close();
    // Frontends are asked to go elsewhere. Agents are not: Go's take it for the end of the tunnel.
    this.#frontendGrpcServer.close();
    await this.#gracePeriod.idle();
    // From here on everything ends, each with its last word: agents first, because what ends there
    // is what frontends are told.
    for (const backend of [...this.#registry.backends]) backend.end();
    this.#broker.end();
    this.#grpcFrontend.end();
    this.#agentGrpcServer.close();
    const listeners = [this.#agentListener, ...this.#frontendListeners];
    const empty = listeners.flatMap((listener) => listener?.whenEmpty() ?? []);
    await this.#within(STOP_LINGER_MS, Promise.all(empty));
    await unpublished;
    this.#destroy();
    await this.#healthListener?.close();
    await this.#adminListener?.close();
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
    this.#frontendGrpcServer.destroy();
    this.#connectFrontend.destroy();
    for (const listener of this.#frontendListeners) listener.destroy();
    this.#agentListener?.destroy();
    void this.#healthListener?.close();
    void this.#adminListener?.close();
  }

  #provideGauges(): void {
    const registry = this.#registry;
    this.#metrics.gauges({
      grpcConnections: () =>
        new Map([
          ["Proxy", this.#grpcFrontend.streamCount],
          ["Connect", registry.backends.size],
        ]),
      httpConnections: () => this.#connectFrontend.requestCount,
      pendingDials: () => this.#broker.pendingDialCount,
      establishedConnections: () => registry.connectionCount(),
      readyBackends: () => registry.keyCounts(),
      readyBackendConnections: () => registry.agentCount(),
      fullReceiveChannels: () => new Map([["Connect", registry.pausedCount()]]),
    });
  }
}
