import type { Socket } from "node:net";
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
import { BackendRegistry } from "./backend/backend-registry.ts";
import { ConnectService } from "./backend/connect-service.ts";
import type { ConnectionPorts } from "./dial/connection.ts";
import { DialBroker } from "./dial/dial-broker.ts";
import { ConnectFrontend } from "./frontend/connect-frontend.ts";
import { GrpcFrontend } from "./frontend/grpc-frontend.ts";
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
import type { ListenerPorts, OpenListener } from "./listeners.ts";
import { ServerMetrics } from "./metrics.ts";
import type { ServerOptions } from "./options.ts";
import type { FrontendProtocol } from "./options/frontend-spec.ts";
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
  readonly #grpcFrontend: GrpcFrontend;
  readonly #connectFrontend: ConnectFrontend;
  readonly #frontendGrpcServer: GrpcServer;
  readonly #agentGrpcServer: GrpcServer;
  readonly #metricRegistry = new MetricRegistry();
  readonly #metrics: ServerMetrics;
  readonly #duties: ApiserverDuties;

  readonly #frontendListeners: SocketListener[] = [];
  #agentListener: SocketListener | undefined;
  readonly #opsListeners = new OpsListeners();
  readonly #handIn: HandInService | undefined;
  readonly #certificates = new Map<string, CertificateFacts>();
  #isStopping = false;
  #stopped: Promise<void> | undefined;
  #onIdle: (() => void) | undefined;

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
        if (this.#onIdle !== undefined && this.#isIdle) this.#onIdle();
      },
    };
    const broker = new DialBroker(this.registry, options, connectionPorts);
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
    });
    const connectService = new ConnectService(
      options,
      this.registry,
      connectionPorts,
      this.flowPorts,
      random,
      this.#duties.authenticator,
    );
    this.#agentGrpcServer = new GrpcServer(
      {
        services: { AgentService: { Connect: connectService.connect } },
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
      health: this.#opsListeners.healthPort,
      admin: this.#opsListeners.adminPort,
    };
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
   * Stop: at once, or with `gracefulShutdownTimeoutMs` after the connections that are open have
   * ended or that time has passed. What is cut then is told so: CLOSE_RSP to gRPC frontends, a
   * reset to CONNECT clients. Idempotent; resolves when nothing is left.
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
      ...(ports.worker === undefined ? {} : { openListener: ports.worker.openListener }),
      certificateLoaded: (listener, leaf) => this.#certificates.set(listener, leaf),
    };
    for (const spec of options.frontends) {
      const accept = this.#acceptorOf(spec.protocol);
      const listener = await openFrontendListener(spec, options, accept, listenerPorts);
      this.#frontendListeners.push(listener);
      this.#opened(`${spec.protocol} frontend`, listener);
    }
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
        isStopping: () => this.#isStopping,
        keyCounts: () => this.registry.keyCounts(),
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

  get #isIdle(): boolean {
    return this.#broker.heldCount === 0 && (this.#handIn?.heldCount ?? 0) === 0;
  }

  async #stop(): Promise<void> {
    this.#isStopping = true;
    // Agents that count leases must not wait for a server that goes.
    const unpublished = this.#duties.stop();
    for (const listener of this.#frontendListeners) listener.close();
    this.#agentListener?.close();
    this.#connectFrontend.close();
    // Frontends are asked to go elsewhere. Agents are not: Go's take it for the end of the tunnel.
    this.#frontendGrpcServer.close();
    if (this.#options.gracefulShutdownTimeoutMs > 0) {
      await this.#idleWithin(this.#options.gracefulShutdownTimeoutMs);
    }
    // From here on everything ends, each with its last word: agents first, because what ends there
    // is what frontends are told.
    for (const backend of [...this.registry.backends]) backend.end();
    this.#broker.end();
    this.#grpcFrontend.end();
    this.#handIn?.end();
    this.#agentGrpcServer.close();
    const listeners = [this.#agentListener, ...this.#frontendListeners];
    const empty = listeners.flatMap((listener) => listener?.whenEmpty() ?? []);
    await this.#within(STOP_LINGER_MS, Promise.all(empty));
    await unpublished;
    this.#destroy();
    await this.#opsListeners.close();
  }

  #idleWithin(timeoutMs: number): Promise<void> {
    if (this.#isIdle) return Promise.resolve();
    return this.#within(
      timeoutMs,
      new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      }),
    );
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
    this.#handIn?.destroy();
    void this.#opsListeners.close();
  }

  #provideGauges(): void {
    const { registry } = this;
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
