import {
  MetricRegistry,
  OpsListener,
  agentHealthRoutes,
  connectKubernetes,
  loadCaPool,
  loadKeyPair,
  metricsRoute,
  movedMetricsRoute,
  profilingRoutes,
  WindowBudget,
} from "@reachback/common";
import type {
  Clock,
  FamilyTextSource,
  KeyPair,
  KubernetesClient,
  Logger,
  Random,
  ReadinessCheck,
} from "@reachback/common";
import type { ConnectionPorts } from "./endpoint/endpoint-connection.ts";
import { TcpEndpointDialer } from "./endpoint/endpoint-dialer.ts";
import { LeaseCounter } from "./lease/lease-counter.ts";
import {
  ENDPOINT_DIAL_TIMEOUT_MS,
  ENDPOINT_SOCKET,
  MAX_LOOKUPS,
  NEXT_ADDRESS_MS,
} from "./limits.ts";
import { DnsHostLookup } from "./lookup/dns-host-lookup.ts";
import type { HostLookup } from "./lookup/host-lookup.ts";
import { SharedHostLookup } from "./lookup/shared-host-lookup.ts";
import { socketLookup } from "./lookup/socket-lookup.ts";
import { AgentMetrics } from "./metrics.ts";
import type { AgentOptions } from "./options.ts";
import { agentReadinessChecks } from "./readiness.ts";
import { addressSourceFor } from "./servers/address-source-for.ts";
import { announcedServerCount } from "./servers/server-count.ts";
import { ServerSet } from "./servers/server-set.ts";
import { TunnelConnector } from "./tunnel/tunnel-connector.ts";

export interface AgentPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Version of the program, for the user agent. */
  readonly version: string;
  /** Metrics of the process, which only its executable can make. */
  readonly processMetrics?: FamilyTextSource;
  /** Finds endpoints. @defaultValue the system's name servers and hosts file */
  readonly hostLookup?: HostLookup;
  /** The environment: where a pod's apiserver is, and to warn of what is set without effect. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** A node agent: its tunnels, the endpoints behind them, and its health and admin ports. */
export class Agent {
  readonly #options: AgentOptions;
  readonly #ports: AgentPorts;
  readonly #metricRegistry = new MetricRegistry();
  readonly #servers: ServerSet;
  #keyPair: KeyPair | undefined;
  /** When an endpoint was reached last. */
  #lastDialAtMs: number | undefined;
  readonly #kubernetes: KubernetesClient | undefined;
  #healthListener: OpsListener | undefined;
  #adminListener: OpsListener | undefined;
  /** Look at what they wait for; see {@link #until}. */
  readonly #waiters = new Set<() => void>();
  #drained: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;

  private constructor(
    options: AgentOptions,
    ports: AgentPorts,
    kubernetes: KubernetesClient | undefined,
  ) {
    const { clock, random, logger } = ports;
    this.#options = options;
    this.#ports = ports;
    this.#kubernetes = kubernetes;
    const metrics = new AgentMetrics(this.#metricRegistry);
    if (ports.processMetrics !== undefined) this.#metricRegistry.addSource(ports.processMetrics);

    const dialer = new TcpEndpointDialer(
      { timeoutMs: ENDPOINT_DIAL_TIMEOUT_MS, nextAddressMs: NEXT_ADDRESS_MS },
      clock,
      new SharedHostLookup(ports.hostLookup ?? new DnsHostLookup(clock), MAX_LOOKUPS),
    );
    const budget = new WindowBudget(options.flow.processWindowBytes);
    const connectionPorts: ConnectionPorts = {
      clock,
      metrics,
      logger,
      dialer: {
        dial: async (...dial) => {
          const socket = await dialer.dial(...dial);
          this.#lastDialAtMs = clock.now();
          return socket;
        },
      },
      socketLimits: ENDPOINT_SOCKET,
      flow: { limits: options.flow.limits, budget },
      halfCloseTimeoutMs: options.flow.halfCloseTimeoutMs,
    };
    const serverLookup = new DnsHostLookup(clock, {
      ...(options.serverResolvers.length === 0 ? {} : { servers: options.serverResolvers }),
    });
    const { serverLeases } = options;
    this.#servers = new ServerSet(
      options,
      this.#connector(connectionPorts, serverLookup),
      {
        addresses: addressSourceFor(options, { clock, random, logger, lookup: serverLookup }),
        count:
          serverLeases === undefined || kubernetes === undefined
            ? announcedServerCount
            : new LeaseCounter(serverLeases, { clock, random, logger, kubernetes, metrics }),
      },
      { clock, random, logger, metrics },
      () => {
        for (const look of [...this.#waiters]) look();
      },
    );
    metrics.gauges({
      connectedServers: () => this.#servers.connectedCount,
      openServerConnections: () => this.#servers.tunnelCount,
      knownServerCount: () => this.#servers.serverCount,
      openEndpointConnections: () => this.#servers.connectionCount,
      windowGrowthBytes: () => budget.usedBytes,
      windowGrowthLimitBytes: () => budget.capacityBytes,
    });
  }

  /**
   * Start an agent. It runs from here on, whether there is a server or not.
   *
   * @throws in upstream's words if its TLS material, one of its ports or its way to the apiserver
   * cannot be used.
   */
  static async start(options: AgentOptions, ports: AgentPorts): Promise<Agent> {
    const agent = new Agent(options, ports, await kubernetesFor(options, ports));
    try {
      await agent.#open();
    } catch (error) {
      await agent.#closeListeners();
      throw error;
    }
    return agent;
  }

  /** Ports that were bound, for whoever asked for any free one. */
  get ports(): { health: number; admin: number } {
    return { health: this.#healthListener?.port ?? 0, admin: this.#adminListener?.port ?? 0 };
  }

  /** Whether the agent has as many tunnels as it must have. */
  get isReady(): boolean {
    return this.#readinessChecks().every((check) => check.run().ok);
  }

  /**
   * Drain: ask servers for no new connections, but serve those that come for at least
   * `drainLingerMs`, and those that are open until they end or `drainTimeoutMs` have passed.
   * Readiness stays as it is. Idempotent; resolves when it is time to {@link stop}.
   */
  drain(): Promise<void> {
    this.#drained ??= this.#drain();
    return this.#drained;
  }

  /**
   * End all tunnels and listeners; endpoints whose connections are cut see a reset. Idempotent;
   * resolves when nothing is left.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  #connector(connectionPorts: ConnectionPorts, lookup: HostLookup): TunnelConnector {
    const { clock, random, logger, version } = this.#ports;
    const options = this.#options;
    try {
      const hasPair = options.agentCertPath !== "" || options.agentKeyPath !== "";
      const keyPair = hasPair
        ? loadKeyPair(options.agentCertPath, options.agentKeyPath, clock)
        : undefined;
      this.#keyPair = keyPair;
      const ca = loadCaPool(options.caCertPath, clock);
      for (const warning of ca.warnings) {
        logger.warn("tls.warning", { path: options.caCertPath, warning });
      }
      return new TunnelConnector(
        {
          lookup: socketLookup(lookup, random),
          ca,
          keyPair,
          alpnProtocols: options.alpnProtocols,
          agentId: options.agentId,
          agentIdentifiers: options.agentIdentifiers,
          tokenPath: options.serviceAccountTokenPath,
          keepaliveTimeMs: options.keepaliveTimeMs,
          keepaliveTimeoutMs: options.keepaliveTimeoutMs,
          userAgent: `reachback-agent/${version}`,
        },
        connectionPorts,
      );
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      throw new Error(`failed to run proxy connection with ${error.message}`, { cause: error });
    }
  }

  #readinessChecks(): readonly ReadinessCheck[] {
    return agentReadinessChecks(
      {
        minServers: this.#options.readyMinServers,
        servers: this.#servers,
        certificate: () => this.#keyPair?.leaf,
        lastDialAtMs: () => this.#lastDialAtMs,
      },
      this.#ports.clock,
    );
  }

  async #open(): Promise<void> {
    const options = this.#options;
    const ports = this.#ports;
    ports.logger.info("agent.identity", {
      agentId: options.agentId,
      identifiers: options.agentIdentifiers,
    });
    this.#warnOfProxy();
    this.#healthListener = await OpsListener.open(
      {
        name: "health server",
        host: options.healthServerHost,
        port: options.healthServerPort,
        routes: [...agentHealthRoutes(this.#readinessChecks()), metricsRoute(this.#metricRegistry)],
      },
      ports,
    );
    this.#adminListener = await OpsListener.open(
      {
        name: "admin server",
        host: options.adminBindAddress,
        port: options.adminServerPort,
        routes: [
          movedMetricsRoute(this.#healthListener.port),
          ...profilingRoutes(
            { enabled: options.enableProfiling, contention: options.enableContentionProfiling },
            ports,
          ),
        ],
      },
      ports,
    );
    this.#servers.start();
  }

  /** Upstream's agent honours this variable; whoever sets it should know that ours does not. */
  #warnOfProxy(): void {
    const { env = {}, logger } = this.#ports;
    const variable = ["HTTPS_PROXY", "https_proxy"].find((name) => (env[name] ?? "") !== "");
    if (variable === undefined) return;
    logger.warn("environment.ignored", {
      variable,
      hint: "proxies are not supported yet: the agent connects to the server directly",
    });
  }

  async #drain(): Promise<void> {
    const { drainLingerMs, drainTimeoutMs } = this.#options;
    const { clock } = this.#ports;
    const deadlineMs = clock.now() + drainTimeoutMs;
    const isCut = () => this.#stopped !== undefined || this.#servers.tunnelCount === 0;
    this.#servers.drain();
    // Servers, upstream's above all, may take a while to stop dialing.
    await this.#until(isCut, drainLingerMs);
    await this.#until(() => this.#servers.isIdle, deadlineMs - clock.now());
  }

  async #stop(): Promise<void> {
    this.#kubernetes?.close();
    this.#servers.stop();
    // Bounded: a server that does not answer is not waited for.
    await this.#until(() => this.#servers.isEmpty);
    await this.#closeListeners();
  }

  /** Resolves when `condition` holds, which is looked at after every change, or after `timeoutMs`. */
  #until(condition: () => boolean, timeoutMs?: number): Promise<void> {
    if (condition()) return Promise.resolve();
    return new Promise((resolve) => {
      const finish = () => {
        cancel?.();
        this.#waiters.delete(look);
        resolve();
      };
      const look = () => {
        if (condition()) finish();
      };
      const cancel =
        timeoutMs === undefined ? undefined : this.#ports.clock.schedule(timeoutMs, finish);
      this.#waiters.add(look);
    });
  }

  async #closeListeners(): Promise<void> {
    await Promise.all([this.#healthListener?.close(), this.#adminListener?.close()]);
  }
}

async function kubernetesFor(
  { serverLeases }: AgentOptions,
  { clock, version, env = {} }: AgentPorts,
): Promise<KubernetesClient | undefined> {
  if (serverLeases === undefined) return undefined;
  const { kubeconfigPath } = serverLeases;
  try {
    return await connectKubernetes(kubeconfigPath, {
      clock,
      env,
      userAgent: `reachback-agent/${version}`,
    });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const which = kubeconfigPath === "" ? "in cluster kubernetes" : "kubernetes";
    throw new Error(
      `failed to run proxy connection with failed to load ${which} client config: ${error.message}`,
      { cause: error },
    );
  }
}
