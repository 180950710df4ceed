import {
  boolType,
  durationType,
  intType,
  FLOW_FLAGS,
  KLOG_FLAGS,
  labelSelectorType,
  parseLabelSelector,
  stringListType,
  stringType,
} from "@reachback/common";
import type { FlagTable } from "@reachback/common";
import { serverHostsType } from "./server-hosts-type.ts";

const SECOND_MS = 1_000;

const SERVERS = "Servers, to where tunnels go";
const IDENTITY = "Identity, and what this agent reaches";
const CONNECTIONS = "Connections and shutdown";
const OBSERVE = "Health, metrics and profiling";
const LEASES = "Counting servers by their leases";

const LEASE_SELECTOR = parseLabelSelector("k8s-app=konnectivity-server");

/** Every flag of the agent: upstream's, with upstream's names, types and defaults, and our own. */
export const AGENT_FLAGS = {
  "proxy-server-host": {
    type: serverHostsType,
    default: ["127.0.0.1"],
    group: SERVERS,
    help: "Name or address of the servers, or of the load balancer before them; repeated, or with commas, one for each server. Their certificate must name it. host:port for another port than the others'.",
  },
  "proxy-server-port": {
    type: intType,
    placeholder: "port",
    default: 8091,
    group: SERVERS,
    help: "Port of the servers; what they have as --agent-port.",
  },
  "server-discovery": {
    type: stringType,
    placeholder: "way",
    default: "",
    defaultText: "balancer with one host, list with several",
    group: SERVERS,
    help: "How hosts lead to servers. balancer: any server may answer at any host, and servers say how many they are. list: each host is a server. dns: each address of each host is a server, e.g. of a headless service.",
  },
  "server-lookup-interval": {
    type: durationType,
    default: 3 * SECOND_MS,
    group: SERVERS,
    help: "How often hosts are looked up with --server-discovery=dns; sooner when a server cannot be reached.",
  },
  "server-resolver": {
    type: stringListType,
    placeholder: "address",
    default: [],
    group: SERVERS,
    help: "Name servers (IP, IP:port) to look up the hosts of servers with, instead of those of /etc/resolv.conf.",
  },
  "ca-cert": {
    type: stringType,
    placeholder: "path",
    default: "",
    group: SERVERS,
    help: "CAs (PEM) of the servers to trust. Needed: the system's CAs are not used.",
  },
  "alpn-proto": {
    type: stringListType,
    default: [],
    group: SERVERS,
    help: "Protocols to offer before h2 in the TLS handshake, for a load balancer that routes by them.",
  },
  "keepalive-time": {
    type: durationType,
    default: 15 * SECOND_MS,
    group: SERVERS,
    help: "Silence after which a tunnel is pinged, 10s at least; 35s at least if the server is not ours, because upstream's allows no more. Set it below the idle timeout of load balancers on the way.",
  },
  "keepalive-timeout": {
    type: durationType,
    default: 10 * SECOND_MS,
    group: SERVERS,
    help: "How long a pinged server may stay silent before its tunnel is given up; 20s at least if it is not ours.",
  },
  "sync-interval": {
    type: durationType,
    default: SECOND_MS,
    group: SERVERS,
    help: "First wait between attempts to reach a server that has no tunnel yet. There are none once all have one.",
  },
  "sync-interval-cap": {
    type: durationType,
    default: 10 * SECOND_MS,
    group: SERVERS,
    help: "Longest wait between such attempts; waits grow towards it while attempts fail.",
  },
  "sync-forever": {
    type: boolType,
    default: false,
    group: SERVERS,
    help: "Accepted; changes nothing. Changes are followed anyway, without attempts in between: see --server-discovery.",
  },
  "probe-interval": {
    type: durationType,
    default: SECOND_MS,
    group: SERVERS,
    help: "Accepted; changes nothing. A lost tunnel is noticed at once, a silent one by --keepalive-time.",
  },

  "agent-cert": {
    type: stringType,
    placeholder: "path",
    default: "",
    group: IDENTITY,
    help: "Certificate (PEM) shown to servers; needed unless a token is sent.",
  },
  "agent-key": {
    type: stringType,
    placeholder: "path",
    default: "",
    group: IDENTITY,
    help: "Private key (PEM) of --agent-cert.",
  },
  "service-account-token-path": {
    type: stringType,
    placeholder: "path",
    default: "",
    group: IDENTITY,
    help: "File with the token to prove the agent's identity with; read again for every tunnel.",
  },
  "agent-id": {
    type: stringType,
    placeholder: "id",
    default: "",
    defaultText: "a random UUID",
    env: "PROXY_AGENT_ID",
    group: IDENTITY,
    help: "Name of this agent towards servers. PROXY_AGENT_ID in the environment sets it too; the flag wins.",
  },
  "agent-identifiers": {
    type: stringType,
    placeholder: "query",
    default: "",
    group: IDENTITY,
    help: "What the agent reaches, for the strategies destHost and defaultRoute, URL-encoded: host=, ipv4=, ipv6=, cidr=, default-route=true, joined by &; zone= is where it is, for servers with a --zone.",
  },

  "drain-linger": {
    type: durationType,
    default: 5 * SECOND_MS,
    group: CONNECTIONS,
    help: "Time on SIGTERM during which new connections are still taken, for servers that have not noticed yet.",
  },
  "drain-timeout": {
    type: durationType,
    default: 25 * SECOND_MS,
    group: CONNECTIONS,
    help: "Time after SIGTERM at which the agent leaves even with connections open. Keep it below the pod's grace period.",
  },
  "xfr-channel-size": {
    type: intType,
    placeholder: "packets",
    default: 150,
    group: CONNECTIONS,
    help: "Packets queued for one connection when the server cannot tell how much it may send, as upstream's cannot.",
  },
  "warn-on-channel-limit": {
    type: boolType,
    default: false,
    group: CONNECTIONS,
    help: "Without effect: a queue that stays full ends its connection, which is counted as slow_consumer.",
  },

  "health-server-host": {
    type: stringType,
    placeholder: "address",
    default: "",
    group: OBSERVE,
    help: "Address of the health listener (/healthz, /readyz, /metrics). Empty means all interfaces.",
  },
  "health-server-port": {
    type: intType,
    placeholder: "port",
    default: 8093,
    group: OBSERVE,
    help: "Port of the health listener.",
  },
  "ready-min-servers": {
    type: stringType,
    placeholder: "number",
    default: "one",
    group: OBSERVE,
    help: "Servers that must have a tunnel for /readyz to succeed: one, all (that are known), or a number.",
  },
  "admin-bind-address": {
    type: stringType,
    placeholder: "address",
    default: "127.0.0.1",
    group: OBSERVE,
    help: "Address of the admin listener (profiles). Empty means all interfaces.",
  },
  "admin-server-port": {
    type: intType,
    placeholder: "port",
    default: 8094,
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

  "count-server-leases": {
    type: boolType,
    default: false,
    group: LEASES,
    help: "Learn the number of servers from the leases they keep with --enable-lease-controller. Needs get, list and watch on leases.",
  },
  "server-count-source": {
    type: stringType,
    placeholder: "source",
    default: "default",
    group: LEASES,
    help: "With leases: default believes them alone, max the larger of them and what servers say.",
  },
  "lease-namespace": {
    type: stringType,
    placeholder: "namespace",
    default: "kube-system",
    group: LEASES,
    help: "Namespace of the leases.",
  },
  "lease-label-selector": {
    type: labelSelectorType,
    default: LEASE_SELECTOR,
    group: LEASES,
    help: "Which leases are those of servers, e.g. a=b or a in (x,y). Empty means all.",
  },
  "lease-label": {
    type: labelSelectorType,
    default: LEASE_SELECTOR,
    group: LEASES,
    setsFlag: "lease-label-selector",
    deprecated: "Use --lease-label-selector instead",
    help: "Older name of --lease-label-selector.",
  },
  kubeconfig: {
    type: stringType,
    placeholder: "path",
    default: "",
    group: LEASES,
    help: "How to reach the apiserver that has the leases. Empty means the pod's own account.",
  },
  "kube-api-content-type": {
    type: stringType,
    placeholder: "type",
    default: "application/vnd.kubernetes.protobuf",
    group: LEASES,
    help: "Accepted and without effect: JSON is spoken, which every apiserver understands.",
  },

  ...FLOW_FLAGS,
  ...KLOG_FLAGS,
} as const satisfies FlagTable;
