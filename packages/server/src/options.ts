import {
  UsageError,
  deepFreeze,
  opensslCiphers,
  resolveFlowOptions,
  resolveLoggingOptions,
} from "@reachback/common";
import type { FlowOptions, LoggingOptions, OptionPorts, Program } from "@reachback/common";
import type { TokenAuthenticationOptions } from "./authentication/token-authenticator.ts";
import type { DialLimits } from "./dial/dial-limits.ts";
import { leaseLabelsFrom } from "./options/lease-labels.ts";
import type { FrontendSpec } from "./options/frontend-spec.ts";
import { isFrontendProtocol } from "./options/frontend-spec.ts";
import type { ProxyStrategy } from "./options/proxy-strategies.ts";
import { proxyStrategiesFrom } from "./options/proxy-strategies.ts";
import { readyStrategiesFrom } from "./options/ready-strategies.ts";
import type { ReadyStrategies } from "./options/ready-strategies.ts";
import {
  chosenCipherSuites,
  firstAddress,
  serverFlagProblems,
  usesTokens,
} from "./options/server-flag-problems.ts";
import type { ServerFlags } from "./options/server-flag-problems.ts";
import { SERVER_FLAGS } from "./options/server-flags.ts";

/** How a server is to run, checked as far as it can be without opening a file or a socket. */
export interface ServerOptions extends DialLimits {
  /** Names this server towards agents; unique among replicas. */
  readonly serverId: string;
  /** How many servers agents are told there are. */
  readonly serverCount: number;
  /** Processes that share the listeners; each is a server of its own to agents. */
  readonly workers: number;

  /** All frontends, the one from `--mode` and its companions first. Never empty. */
  readonly frontends: readonly FrontendSpec[];
  /** Permissions of the Unix sockets among the frontends. */
  readonly unixSocketMode: number;
  /** Whether a socket file that nobody listens on is replaced rather than an error. */
  readonly deleteExistingUnixSocket: boolean;
  /** TLS material of the TCP frontends; empty for none. */
  readonly serverCertPath: string;
  readonly serverKeyPath: string;
  /** CAs of frontend clients; empty only if {@link allowUnauthenticatedFrontends}, or for no TCP. */
  readonly serverCaCertPath: string;
  readonly allowUnauthenticatedFrontends: boolean;
  readonly frontendKeepaliveTimeMs: number;

  /** Empty for all interfaces. */
  readonly agentBindAddress: string;
  readonly agentPort: number;
  /** TLS material of the agent listener; empty for none, which cannot be started with. */
  readonly clusterCertPath: string;
  readonly clusterKeyPath: string;
  /**
   * CAs of agents; with an empty one the listener may open only with {@link tokenAuthentication} or
   * {@link allowUnauthenticatedAgents}.
   */
  readonly clusterCaCertPath: string;
  readonly allowUnauthenticatedAgents: boolean;
  readonly keepaliveTimeMs: number;
  readonly keepaliveTimeoutMs: number;
  /** Agents must have a service account's token; `undefined` if they need none. */
  readonly tokenAuthentication: TokenAuthenticationOptions | undefined;
  /** This server keeps a lease; `undefined` if not. */
  readonly lease: PublishedLease | undefined;
  /** How to reach the apiserver for these two; empty for the pod's own account. */
  readonly kubeconfigPath: string;

  /** Tried in order; may repeat one. Never empty. */
  readonly proxyStrategies: readonly ProxyStrategy[];
  /** Agents of this zone are preferred; empty for no preference. */
  readonly zone: string;
  /** 0 for no limit. */
  readonly maxTunnelsPerIdentity: number;
  /** 0 for an immediate shutdown. */
  readonly gracefulShutdownTimeoutMs: number;
  /** The part of it in which the server still accepts. */
  readonly shutdownDelayMs: number;

  /** For Node's `ciphers`, on TCP frontends and the agent listener. */
  readonly tlsCiphers: string;
  readonly tlsMinVersion: "TLSv1.2" | "TLSv1.3";

  /** Empty for all interfaces, here and below. */
  readonly healthBindAddress: string;
  readonly healthPort: number;
  readonly readyStrategies: ReadyStrategies;
  readonly adminBindAddress: string;
  readonly adminPort: number;
  readonly enableProfiling: boolean;
  readonly enableContentionProfiling: boolean;

  readonly flow: FlowOptions;
  readonly logging: LoggingOptions;
}

/** Where this server's lease is, and by what agents find it. */
export interface PublishedLease {
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** client-go's are 5 and 10, which keep a thousand agents waiting for minutes. */
const DEFAULT_REVIEWS_PER_SECOND = 50;
const DEFAULT_REVIEW_BURST = 50;

/**
 * Check the flags of a server and turn them into options.
 *
 * @returns Frozen options.
 * @throws {UsageError} with every problem, upstream's first one first.
 */
export function resolveServerOptions(flags: ServerFlags, ports: OptionPorts): ServerOptions {
  const { values } = flags;
  const [problem, ...more] = serverFlagProblems(flags, ports.fileExists);
  if (problem !== undefined) throw new UsageError([problem, ...more]);

  return deepFreeze<ServerOptions>({
    serverId: values["server-id"] === "" ? ports.random.uuid() : values["server-id"],
    serverCount: values["server-count"],
    workers: values.workers,

    frontends: [firstFrontend(values), ...values.frontend],
    unixSocketMode: values["uds-mode"],
    deleteExistingUnixSocket: values["delete-existing-uds-file"],
    serverCertPath: values["server-cert"],
    serverKeyPath: values["server-key"],
    serverCaCertPath: values["server-ca-cert"],
    allowUnauthenticatedFrontends: values["insecure-allow-unauthenticated-frontends"],
    frontendKeepaliveTimeMs: orNever(values["frontend-keepalive-time"]),

    agentBindAddress: values["agent-bind-address"],
    agentPort: values["agent-port"],
    clusterCertPath: values["cluster-cert"],
    clusterKeyPath: values["cluster-key"],
    clusterCaCertPath: values["cluster-ca-cert"],
    allowUnauthenticatedAgents: values["insecure-allow-unauthenticated-agents"],
    keepaliveTimeMs: orNever(values["keepalive-time"]),
    keepaliveTimeoutMs: values["keepalive-timeout"],
    tokenAuthentication: usesTokens(values) ? tokenAuthentication(values) : undefined,
    lease: values["enable-lease-controller"]
      ? {
          namespace: values["lease-namespace"],
          labels: leaseLabelsFrom(values["lease-label"]),
        }
      : undefined,
    kubeconfigPath: values.kubeconfig,

    proxyStrategies: proxyStrategiesFrom(values["proxy-strategies"]),
    zone: values.zone,
    backendDialTimeoutMs: values["backend-dial-timeout"],
    startupDialHoldMs: values["startup-dial-hold"],
    maxPendingDials: values["max-pending-dials"],
    maxConnections: values["max-connections"],
    maxConnectionsPerAgent: values["max-connections-per-agent"],
    maxTunnelsPerIdentity: values["max-tunnels-per-identity"],
    gracefulShutdownTimeoutMs: values["graceful-shutdown-timeout"],
    shutdownDelayMs: values["shutdown-delay"],

    tlsCiphers: opensslCiphers(chosenCipherSuites(values)),
    tlsMinVersion: values["tls-min-version"] === "VersionTLS13" ? "TLSv1.3" : "TLSv1.2",

    healthBindAddress: values["health-bind-address"],
    healthPort: values["health-port"],
    readyStrategies: readyStrategiesFrom(values["ready-strategies"]),
    adminBindAddress: values["admin-bind-address"],
    adminPort: values["admin-port"],
    enableProfiling: values["enable-profiling"],
    enableContentionProfiling: values["enable-contention-profiling"],

    flow: resolveFlowOptions(flags, values["xfr-channel-size"], ports.memoryLimitBytes()),
    logging: resolveLoggingOptions(flags),
  });
}

/** As for Go's servers: with 0, peers are not pinged. */
function orNever(intervalMs: number): number {
  return intervalMs === 0 ? Number.POSITIVE_INFINITY : intervalMs;
}

function tokenAuthentication(values: ServerFlags["values"]): TokenAuthenticationOptions {
  return {
    namespace: values["agent-namespace"],
    serviceAccount: values["agent-service-account"],
    audience: values["authentication-audience"],
    maxWaiting: values["token-review-queue"],
    timeoutMs: values["token-review-timeout"],
    perSecond: values["kubeconfig-qps"] || DEFAULT_REVIEWS_PER_SECOND,
    burst: values["kubeconfig-burst"] || DEFAULT_REVIEW_BURST,
    cacheTtlMs: values["token-review-cache-ttl"],
  };
}

/** The frontend that upstream's flags describe. */
function firstFrontend(values: ServerFlags["values"]): FrontendSpec {
  const { mode } = values;
  if (!isFrontendProtocol(mode)) throw new Error(`unchecked mode ${mode}`);
  return { protocol: mode, address: firstAddress(values) };
}

/** The server as a command-line program. */
export function serverProgram(version: string): Program<typeof SERVER_FLAGS, ServerOptions> {
  return {
    name: "reachback-server",
    version,
    summary:
      "Runs beside kube-apiserver: takes its requests for connections and carries them through the\n" +
      "tunnels that agents have opened, to kubelets, pods and services.",
    examples: `\
  # gRPC for an apiserver on this host; agents by mutual TLS on port 8091
  reachback-server --uds-name=/run/reachback/server.sock --server-port=0 \\
    --cluster-cert=server.crt --cluster-key=server.key --cluster-ca-cert=agents-ca.crt

  # HTTP CONNECT by mutual TLS on port 8090 for an apiserver elsewhere
  reachback-server --mode=http-connect \\
    --server-cert=server.crt --server-key=server.key --server-ca-cert=clients-ca.crt \\
    --cluster-cert=server.crt --cluster-key=server.key --cluster-ca-cert=agents-ca.crt`,
    flags: SERVER_FLAGS,
    resolve: resolveServerOptions,
  };
}
