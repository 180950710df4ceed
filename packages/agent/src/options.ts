import {
  UsageError,
  deepFreeze,
  resolveFlowOptions,
  resolveLoggingOptions,
} from "@reachback/common";
import type { FlowOptions, LoggingOptions, OptionPorts, Program } from "@reachback/common";
import { agentFlagProblems, chosenAlpnProtocols } from "./options/agent-flag-problems.ts";
import type { AgentFlags } from "./options/agent-flag-problems.ts";
import { AGENT_FLAGS } from "./options/agent-flags.ts";
import { chosenDiscovery, chosenReadyMinServers, chosenServers } from "./options/server-options.ts";
import type { ServerDiscovery } from "./options/server-options.ts";
import type { ServerAddress } from "./servers/server-address.ts";
import type { LeaseCounterOptions } from "./lease/lease-counter.ts";

/** How an agent is to run, checked as far as it can be without opening a file or a socket. */
export interface AgentOptions {
  /** Names this agent towards servers. */
  readonly agentId: string;
  /** What the agent reaches, as it goes onto the wire: a URL-encoded query, possibly empty. */
  readonly agentIdentifiers: string;

  /** At least one host, each with its port. */
  readonly servers: readonly ServerAddress[];
  readonly serverDiscovery: ServerDiscovery;
  readonly serverLookupIntervalMs: number;
  /** Name servers, `address` or `address:port`; empty for the system's. */
  readonly serverResolvers: readonly string[];
  /** TLS material; empty for none. Without CAs no server can be trusted, so the start fails. */
  readonly caCertPath: string;
  readonly agentCertPath: string;
  readonly agentKeyPath: string;
  /** Sent with every tunnel's start, and read anew for it; empty for none. */
  readonly serviceAccountTokenPath: string;
  /** Offered before `h2`. */
  readonly alpnProtocols: readonly string[];
  /** Silence after which a server is pinged, and after which it then counts as gone. */
  readonly keepaliveTimeMs: number;
  readonly keepaliveTimeoutMs: number;

  /** First wait between attempts to reach a server without a tunnel, and the longest. */
  readonly syncIntervalMs: number;
  readonly syncIntervalCapMs: number;
  readonly probeIntervalMs: number;

  /** Servers are counted by these leases; `undefined` if what servers say is believed. */
  readonly serverLeases: ServerLeaseOptions | undefined;

  /** On SIGTERM: how long to serve at least, and how long at most. The second is never less. */
  readonly drainLingerMs: number;
  readonly drainTimeoutMs: number;

  /** Empty for all interfaces, here and below. */
  readonly healthServerHost: string;
  readonly healthServerPort: number;
  /** How many servers must have a tunnel before the agent is ready; all that are known of. */
  readonly readyMinServers: number | "all";
  readonly adminBindAddress: string;
  readonly adminServerPort: number;
  readonly enableProfiling: boolean;
  readonly enableContentionProfiling: boolean;

  readonly flow: FlowOptions;
  readonly logging: LoggingOptions;
}

export interface ServerLeaseOptions extends LeaseCounterOptions {
  /** How to reach the apiserver that has them; empty for the pod's own account. */
  readonly kubeconfigPath: string;
}

/**
 * Check the flags of an agent and turn them into options.
 *
 * @returns Frozen options.
 * @throws {UsageError} with every problem, upstream's first one first.
 */
export function resolveAgentOptions(flags: AgentFlags, ports: OptionPorts): AgentOptions {
  const { values } = flags;
  const [problem, ...more] = agentFlagProblems(flags, ports.fileExists);
  if (problem !== undefined) throw new UsageError([problem, ...more]);

  return deepFreeze<AgentOptions>({
    agentId: values["agent-id"] === "" ? ports.random.uuid() : values["agent-id"],
    agentIdentifiers: values["agent-identifiers"],

    servers: chosenServers(values),
    serverDiscovery: chosenDiscovery(values),
    serverLookupIntervalMs: values["server-lookup-interval"],
    serverResolvers: values["server-resolver"],
    caCertPath: values["ca-cert"],
    agentCertPath: values["agent-cert"],
    agentKeyPath: values["agent-key"],
    serviceAccountTokenPath: values["service-account-token-path"],
    alpnProtocols: chosenAlpnProtocols(values),
    keepaliveTimeMs: values["keepalive-time"],
    keepaliveTimeoutMs: values["keepalive-timeout"],

    syncIntervalMs: values["sync-interval"],
    syncIntervalCapMs: values["sync-interval-cap"],
    probeIntervalMs: values["probe-interval"],

    serverLeases: values["count-server-leases"]
      ? {
          namespace: values["lease-namespace"],
          selector: values["lease-label-selector"],
          rule: values["server-count-source"] === "max" ? "max" : "leases",
          kubeconfigPath: values.kubeconfig,
        }
      : undefined,

    drainLingerMs: values["drain-linger"],
    drainTimeoutMs: values["drain-timeout"],

    healthServerHost: values["health-server-host"],
    healthServerPort: values["health-server-port"],
    readyMinServers: chosenReadyMinServers(values),
    adminBindAddress: values["admin-bind-address"],
    adminServerPort: values["admin-server-port"],
    enableProfiling: values["enable-profiling"],
    enableContentionProfiling: values["enable-contention-profiling"],

    flow: resolveFlowOptions(flags, values["xfr-channel-size"], ports.memoryLimitBytes()),
    logging: resolveLoggingOptions(flags),
  });
}

/** The agent as a command-line program. */
export function agentProgram(version: string): Program<typeof AGENT_FLAGS, AgentOptions> {
  return {
    name: "reachback-agent",
    version,
    summary:
      "Runs on or beside a node: dials out to the servers and, through those tunnels, opens the\n" +
      "connections that kube-apiserver asks for.",
    examples: `\
  # Mutual TLS to port 8091 of the servers; this agent reaches one node
  reachback-agent --proxy-server-host=konnectivity.example.com --ca-cert=servers-ca.crt \\
    --agent-cert=agent.crt --agent-key=agent.key \\
    --agent-identifiers='host=node1&ipv4=192.0.2.7'

  # Three servers without a balancer: every address of a headless service is one
  reachback-agent --proxy-server-host=servers.kube-system.svc.cluster.local. --server-discovery=dns \\
    --ca-cert=servers-ca.crt --agent-cert=agent.crt --agent-key=agent.key`,
    flags: AGENT_FLAGS,
    resolve: resolveAgentOptions,
  };
}
