import {
  boolType,
  durationType,
  intType,
  FLOW_FLAGS,
  KLOG_FLAGS,
  stringListType,
  stringType,
} from "@reachback/common";
import type { FlagTable } from "@reachback/common";
import { APISERVER_FLAGS } from "./apiserver-flags.ts";
import { fileModeType } from "./file-mode-type.ts";
import { frontendListType } from "./frontend-spec.ts";
import { LIMIT_FLAGS } from "./limit-flags.ts";

const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;

const FRONTEND = "Frontends, where kube-apiserver asks for connections";
const AGENTS = "Agents, from where tunnels come in";
const CONNECTIONS = "Connections and shutdown";
const OBSERVE = "Health, metrics and profiling";
const TLS = "TLS of both TCP frontends and the agent listener";

/** Every flag of the server: upstream's, with upstream's names and types, and our own. */
export const SERVER_FLAGS = {
  mode: {
    type: stringType,
    placeholder: "protocol",
    default: "grpc",
    group: FRONTEND,
    help: "Protocol of the first frontend: grpc or http-connect, as in the apiserver's egress selector.",
  },
  "uds-name": {
    type: stringType,
    placeholder: "path",
    default: "",
    group: FRONTEND,
    help: "Unix socket of the first frontend. Goes with --server-port=0; empty means TCP.",
  },
  "uds-mode": {
    type: fileModeType,
    default: 0o770,
    group: FRONTEND,
    help: "Permissions of the Unix sockets. They are all that guards one, so keep others out.",
  },
  "delete-existing-uds-file": {
    type: boolType,
    default: true,
    group: FRONTEND,
    help: "Take the place of a socket file that a dead server left behind. A live one is never touched.",
  },
  "server-bind-address": {
    type: stringType,
    placeholder: "address",
    default: "",
    group: FRONTEND,
    help: "Address of the first frontend when it is TCP. Empty means all interfaces.",
  },
  "server-port": {
    type: intType,
    placeholder: "port",
    default: 8090,
    group: FRONTEND,
    help: "Port of the first frontend when it is TCP; 0 with --uds-name.",
  },
  frontend: {
    type: frontendListType,
    default: [],
    group: FRONTEND,
    help: "One more frontend, beside the first: grpc or http-connect, a comma, and unix:PATH or HOST:PORT (:PORT for all interfaces). May be repeated.",
  },
  "server-cert": {
    type: stringType,
    placeholder: "path",
    default: "",
    group: FRONTEND,
    help: "Certificate (PEM) that TCP frontends show to the apiserver.",
  },
  "server-key": {
    type: stringType,
    placeholder: "path",
    default: "",
    group: FRONTEND,
    help: "Private key (PEM) of --server-cert.",
  },
  "server-ca-cert": {
    type: stringType,
    placeholder: "path",
    default: "",
    group: FRONTEND,
    help: "CAs (PEM) of the clients that TCP frontends accept.",
  },
  "insecure-allow-unauthenticated-frontends": {
    type: boolType,
    default: false,
    group: FRONTEND,
    help: "Open TCP frontends without --server-ca-cert. Whoever reaches the port then reaches the cluster's nodes and pods.",
  },
  "frontend-keepalive-time": {
    type: durationType,
    default: HOUR_MS,
    group: FRONTEND,
    help: "Silence after which a gRPC frontend pings its client.",
  },

  "agent-bind-address": {
    type: stringType,
    placeholder: "address",
    default: "",
    group: AGENTS,
    help: "Address of the agent listener. Empty means all interfaces.",
  },
  "agent-port": {
    type: intType,
    placeholder: "port",
    default: 8091,
    group: AGENTS,
    help: "Port of the agent listener; what agents have as --proxy-server-port.",
  },
  "cluster-cert": {
    type: stringType,
    placeholder: "path",
    default: "",
    group: AGENTS,
    help: "Certificate (PEM) shown to agents; it must name the host in their --proxy-server-host.",
  },
  "cluster-key": {
    type: stringType,
    placeholder: "path",
    default: "",
    group: AGENTS,
    help: "Private key (PEM) of --cluster-cert.",
  },
  "cluster-ca-cert": {
    type: stringType,
    placeholder: "path",
    default: "",
    group: AGENTS,
    help: "CAs (PEM) of the agents to accept; an agent without a certificate of theirs is turned away. May be left out where agents are asked for a token.",
  },
  "insecure-allow-unauthenticated-agents": {
    type: boolType,
    default: false,
    group: AGENTS,
    help: "Open the agent listener with neither --cluster-ca-cert nor tokens. Whoever reaches the port can then pose as an agent and receive the apiserver's traffic.",
  },
  "keepalive-time": {
    type: durationType,
    default: 15 * SECOND_MS,
    group: AGENTS,
    help: "Silence after which an agent's tunnel is pinged. Set it below the idle timeout of load balancers on the way.",
  },
  "keepalive-timeout": {
    type: durationType,
    default: 10 * SECOND_MS,
    group: AGENTS,
    help: "How long a pinged agent may stay silent before its tunnel is given up.",
  },
  "server-id": {
    type: stringType,
    placeholder: "id",
    default: "",
    defaultText: "a random UUID",
    env: "PROXY_SERVER_ID",
    group: AGENTS,
    help: "Name of this server towards agents, which keep one tunnel per name: every replica needs its own. PROXY_SERVER_ID in the environment sets it too; the flag wins.",
  },
  "server-count": {
    type: intType,
    placeholder: "count",
    default: 1,
    group: AGENTS,
    help: "Number of replicas, which tells agents how many tunnels to open.",
  },
  "proxy-strategies": {
    type: stringType,
    placeholder: "list",
    default: "default",
    group: AGENTS,
    help: "How to pick an agent, tried in order: destHost (it claims the destination), defaultRoute (it claims the rest), default (any).",
  },
  zone: {
    type: stringType,
    placeholder: "name",
    default: "",
    group: AGENTS,
    help: "Zone of this server: agents with the same zone= among their --agent-identifiers are preferred while one of them is well. Empty means no preference.",
  },

  "backend-dial-timeout": {
    type: durationType,
    default: 10 * SECOND_MS,
    group: CONNECTIONS,
    help: "Time for an agent to open a connection before the client gets an error; 0 means no limit, as upstream's default does. An agent that says nothing for 6s is given up for another one.",
  },
  "startup-dial-hold": {
    type: durationType,
    default: 0,
    group: CONNECTIONS,
    help: "Time that a request may wait for the first agent to connect after a start, instead of failing at once.",
  },
  "graceful-shutdown-timeout": {
    type: durationType,
    default: 0,
    group: CONNECTIONS,
    help: "Time given to open connections on SIGTERM; 0 means they are cut at once. Set the pod's terminationGracePeriodSeconds above it.",
  },
  "shutdown-delay": {
    type: durationType,
    default: 5 * SECOND_MS,
    group: CONNECTIONS,
    help: "Part of --graceful-shutdown-timeout in which new connections are still taken, until clients have seen that /readyz fails and agents have connected elsewhere. Without effect where that timeout is 0.",
  },
  workers: {
    type: intType,
    placeholder: "count",
    default: 1,
    group: CONNECTIONS,
    help: "Processes that share the load and the listeners, one per core. Agents see each as a server: it has --server-id with -1, -2, ... behind it, and --server-count is multiplied. Limits are per worker.",
  },
  "xfr-channel-size": {
    type: intType,
    placeholder: "packets",
    default: 10,
    group: CONNECTIONS,
    help: "Packets queued towards one peer that cannot tell how much it can take, as upstream's cannot.",
  },

  "cipher-suites": {
    type: stringListType,
    default: [],
    group: TLS,
    help: "Suites allowed in TLS 1.2, by Go's names. Empty means a good choice; those of TLS 1.3 are always on.",
  },
  "tls-min-version": {
    type: stringType,
    placeholder: "version",
    default: "",
    group: TLS,
    help: "Oldest TLS to accept: VersionTLS12, also meant when empty, or VersionTLS13.",
  },

  "health-bind-address": {
    type: stringType,
    placeholder: "address",
    default: "",
    group: OBSERVE,
    help: "Address of the health listener (/healthz, /readyz, /metrics). Empty means all interfaces.",
  },
  "health-port": {
    type: intType,
    placeholder: "port",
    default: 8092,
    group: OBSERVE,
    help: "Port of the health listener.",
  },
  "ready-strategies": {
    type: stringType,
    placeholder: "which",
    default: "first",
    group: OBSERVE,
    help: "Which of --proxy-strategies must have an agent for /readyz to succeed: the first, any, or all.",
  },
  "admin-bind-address": {
    type: stringType,
    placeholder: "address",
    default: "127.0.0.1",
    group: OBSERVE,
    help: "Address of the admin listener (/metrics, profiles). Empty means all interfaces.",
  },
  "admin-port": {
    type: intType,
    placeholder: "port",
    default: 8095,
    group: OBSERVE,
    help: "Port of the admin listener.",
  },
  "enable-profiling": {
    type: boolType,
    default: false,
    group: OBSERVE,
    help: "Serve CPU and heap profiles on the admin listener.",
  },
  "enable-contention-profiling": {
    type: boolType,
    default: false,
    group: OBSERVE,
    help: "Accepted with --enable-profiling; a single-threaded process has no lock contention to show.",
  },

  ...APISERVER_FLAGS,

  "warn-on-channel-limit": {
    type: boolType,
    default: true,
    group: CONNECTIONS,
    deprecated:
      "This behavior is now thread safe and always on. This flag will be removed in a future release.",
    help: "Without effect.",
  },

  ...LIMIT_FLAGS,
  ...FLOW_FLAGS,
  ...KLOG_FLAGS,
} as const satisfies FlagTable;
