import {
  Counter,
  Histogram,
  LabelledCounter,
  LabelledHistogram,
  PacketCounters,
  StreamErrorCounters,
  unlabelled,
} from "@reachback/common";
import type { MetricRegistry, MetricSeries, SegmentPackets } from "@reachback/common";

/** Which peer a packet comes from or goes to. */
export type ServerSegment = "from_client" | "to_client" | "from_agent" | "to_agent";

/** The gRPC method that a stream belongs to: `Proxy` of a frontend, `Connect` of an agent. */
export type ServiceMethod = "Proxy" | "Connect";

/** Why a dial failed; one dial may fail for several reasons. */
export type DialFailureReason =
  /** No backend for the host; upstream counts it for gRPC frontends only. */
  | "no_agent"
  /** The agent answered that it could not dial. */
  | "error_response"
  /** The answer is for a dial that nobody waits for. */
  | "unrecognized_response"
  /** The answer could not be handed to the frontend. */
  | "send_rsp"
  /** The agent's tunnel ended, or refused the request. */
  | "backend_close"
  /** The deadline passed. */
  | "backend_dial_timeout"
  /** The frontend left before the answer. */
  | "frontend_close"
  /** Turned away because of `--max-pending-dials`, and so on. */
  | "pending_dials_limit"
  | "connections_limit"
  | "agent_connections_limit";

/** Why an agent's tunnel was turned away. */
export type TunnelRefusalReason =
  /** What the agent says of itself breaks the protocol. */
  | "metadata"
  /** Its token was not accepted. */
  | "authentication"
  /** `--max-tunnels-per-identity`. */
  | "identity_tunnels_limit";

/** Where the gauges get their values: read at each scrape, so that none of them is ever stale. */
export interface ServerGauges {
  grpcConnections(): ReadonlyMap<ServiceMethod, number>;
  httpConnections(): number;
  pendingDials(): number;
  establishedConnections(): number;

  /** Keys (agents, or identifiers with `destHost`) by strategy, configured ones with 0 too. */
  readyBackends(): ReadonlyMap<string, number>;
  readyBackendConnections(): number;

  /** Streams by method whose reading waits for a full queue. */
  fullReceiveChannels(): ReadonlyMap<ServiceMethod, number>;

  /** What all receive windows have grown by, and may grow by: `--process-window`. */
  windowGrowthBytes(): number;
  windowGrowthLimitBytes(): number;
}

const UPSTREAM = "konnectivity_network_proxy_server_";
const OWN = "reachback_server_";

const LATENCY_BOUNDS = [1e-6, 1e-5, 1e-4, 0.005, 0.025, 0.1, 0.5, 2.5, 12.5];
const CONNECTION_BOUNDS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 14400, 43200, 86400];
const LEASE_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * Everything the server counts, under upstream's names and under `reachback_server_` where upstream
 * has none.
 *
 * What happens per packet is an addition; all else is done when a scrape asks. Like upstream's, a
 * counter with labels and a histogram are absent until they are used. Gauges are there from the
 * start, upstream's only from their first change.
 */
export class ServerMetrics {
  /** Packets, before a send is tried and after a receive. */
  readonly packets: {
    readonly fromClient: SegmentPackets;
    readonly toClient: SegmentPackets;
    readonly fromAgent: SegmentPackets;
    readonly toAgent: SegmentPackets;
  };

  /** Payload of proxied connections. */
  readonly bytes = { toAgent: new Counter(), fromAgent: new Counter() };

  readonly #packets = new PacketCounters<ServerSegment>([
    "from_client",
    "to_client",
    "from_agent",
    "to_agent",
  ]);
  readonly #streamErrors = new StreamErrorCounters();
  #lastDialAtMs: number | undefined;
  readonly #dialSeconds = new Histogram(LATENCY_BOUNDS);
  readonly #frontendWriteSeconds = new Histogram(LATENCY_BOUNDS);
  readonly #connectionSeconds = new Histogram(CONNECTION_BOUNDS);
  readonly #dialFailures = new LabelledCounter(["reason"]);
  readonly #dialRetries = new LabelledCounter(["reason"]);
  readonly #tunnelRefusals = new LabelledCounter(["reason"]);
  readonly #turnedAway = new Counter();
  readonly #opened = new Counter();
  readonly #closed = new LabelledCounter(["reason"]);
  readonly #culledLeases = new Counter();
  readonly #leaseDeletes = new LabelledCounter(["http_status_code", "reason"]);
  readonly #leaseDeleteSeconds = new LabelledHistogram("http_status_code", LEASE_BOUNDS);
  readonly #leaseLists = new LabelledCounter(["http_status_code", "reason"]);
  readonly #leaseListSeconds = new LabelledHistogram("http_status_code", LEASE_BOUNDS);
  #gauges: Partial<ServerGauges> = {};

  constructor(registry: MetricRegistry) {
    this.packets = {
      fromClient: this.#packets.of("from_client"),
      toClient: this.#packets.of("to_client"),
      fromAgent: this.#packets.of("from_agent"),
      toAgent: this.#packets.of("to_agent"),
    };
    this.#registerTraffic(registry);
    this.#registerGauges(registry);
    this.#registerLeases(registry);
  }

  /** Say where gauges get their values. May be called by several owners, each for its own. */
  gauges(sources: Partial<ServerGauges>): void {
    this.#gauges = { ...this.#gauges, ...sources };
  }

  /** A dial was answered with success, so long after it was asked for. */
  /** @param atMs - Now, in the clock's milliseconds. */
  dialSucceeded(durationSeconds: number, atMs: number): void {
    this.#dialSeconds.observe(durationSeconds);
    this.#lastDialAtMs = atMs;
  }

  /** When a dial succeeded last, as it was said. */
  get lastDialAtMs(): number | undefined {
    return this.#lastDialAtMs;
  }

  dialFailed(reason: DialFailureReason): void {
    this.#dialFailures.increment({ reason });
  }

  /** A dial that failed for that reason is tried on another agent. */
  dialRetried(reason: DialFailureReason): void {
    this.#dialRetries.increment({ reason });
  }

  tunnelRefused(reason: TunnelRefusalReason): void {
    this.#tunnelRefusals.increment({ reason });
  }

  tunnelTurnedAway(): void {
    this.#turnedAway.add();
  }

  /** Something was written to a frontend, and that took so long. */
  frontendWrote(durationSeconds: number): void {
    this.#frontendWriteSeconds.observe(durationSeconds);
  }

  connectionOpened(): void {
    this.#opened.add();
  }

  /** @param reason - from the closed set of reasons a connection ends for. */
  connectionClosed(reason: string, durationSeconds: number): void {
    this.#closed.increment({ reason });
    this.#connectionSeconds.observe(durationSeconds);
  }

  /** See {@link StreamErrorCounters.count}. */
  streamFailed(segment: ServerSegment, code: number, packetType?: number): void {
    this.#streamErrors.count(segment, code, packetType);
  }

  /** The apiserver answered a list of leases. */
  leasesListed(httpStatusCode: number, reason: string, durationSeconds: number): void {
    const status = String(httpStatusCode);
    this.#leaseLists.increment({ http_status_code: status, reason });
    this.#leaseListSeconds.observe(status, durationSeconds);
  }

  /** The apiserver answered the deletion of a lease. */
  leaseDeleted(httpStatusCode: number, reason: string, durationSeconds: number): void {
    const status = String(httpStatusCode);
    this.#leaseDeletes.increment({ http_status_code: status, reason });
    this.#leaseDeleteSeconds.observe(status, durationSeconds);
  }

  leaseCulled(): void {
    this.#culledLeases.add();
  }

  #registerTraffic(registry: MetricRegistry): void {
    registry.add({
      name: `${UPSTREAM}dial_duration_seconds`,
      help: "Latency of dial to the remote endpoint in seconds",
      type: "histogram",
      collect: () => this.#dialSeconds.series(),
    });
    registry.add({
      name: `${UPSTREAM}frontend_write_duration_seconds`,
      help: "Latency of write to the frontend in seconds",
      type: "histogram",
      collect: () => this.#frontendWriteSeconds.series(),
    });
    registry.add({
      name: `${UPSTREAM}connection_duration_seconds`,
      help: "Duration in seconds a proxied end-to-end connection was established (post-dial) before being closed.",
      type: "histogram",
      collect: () => this.#connectionSeconds.series(),
    });
    registry.add({
      name: `${UPSTREAM}dial_failure_count`,
      help: "Number of dial failures observed. Multiple failures can occur for a single dial request.",
      type: "counter",
      collect: () => this.#dialFailures.series(),
    });
    registry.add({
      name: `${UPSTREAM}stream_packets_total`,
      help: "Count of packets processed, by segment and packet type (example: from_client, DIAL_REQ)",
      type: "counter",
      collect: () => this.#packets.series(),
    });
    registry.add({
      name: `${UPSTREAM}stream_errors_total`,
      help: "Count of gRPC stream errors, by segment, grpc Code, packet type. (example: from_agent, Code.Unavailable, DIAL_RSP)",
      type: "counter",
      collect: () => this.#streamErrors.series(),
    });
    registry.add({
      name: `${OWN}dials_retried_total`,
      help: "Dials tried on a second agent, by the reason the first one failed for.",
      type: "counter",
      collect: () => this.#dialRetries.series(),
    });
    registry.add({
      name: `${OWN}tunnels_refused_total`,
      help: "Tunnels of agents that were turned away, by reason.",
      type: "counter",
      collect: () => this.#tunnelRefusals.series(),
    });
    registry.add({
      name: `${OWN}tunnels_turned_away_total`,
      help: "Attempts ended in their first words because the agent has a tunnel to this server: a balancer led it here again.",
      type: "counter",
      collect: () => [{ labels: {}, value: this.#turnedAway.value }],
    });
    registry.add({
      name: `${OWN}connection_bytes_total`,
      help: "Payload bytes of proxied connections, by direction.",
      type: "counter",
      collect: () => [
        { labels: { direction: "to_agent" }, value: this.bytes.toAgent.value },
        { labels: { direction: "from_agent" }, value: this.bytes.fromAgent.value },
      ],
    });
    registry.add({
      name: `${OWN}connections_opened_total`,
      help: "Proxied connections that were established.",
      type: "counter",
      collect: () => unlabelled(this.#opened.value),
    });
    registry.add({
      name: `${OWN}connections_closed_total`,
      help: "Proxied connections that were established and have ended, by reason.",
      type: "counter",
      collect: () => this.#closed.series(),
    });
  }

  #registerGauges(registry: MetricRegistry): void {
    registry.add({
      name: `${UPSTREAM}grpc_connections`,
      help: "Number of current grpc connections, partitioned by service method.",
      type: "gauge",
      collect: () => seriesBy("service_method", this.#gauges.grpcConnections?.()),
    });
    registry.add({
      name: `${UPSTREAM}http_connections`,
      help: "Number of current HTTP CONNECT connections",
      type: "gauge",
      collect: () => unlabelled(this.#gauges.httpConnections?.() ?? 0),
    });
    registry.add({
      name: `${UPSTREAM}ready_backend_connections`,
      help: "Number of konnectivity agent connected to the proxy server. DEPRECATED, please use ready_backends",
      type: "gauge",
      collect: () => unlabelled(this.#gauges.readyBackendConnections?.() ?? 0),
    });
    registry.add({
      name: `${UPSTREAM}ready_backends`,
      help: "Number of konnectivity agent connected to the proxy server",
      type: "gauge",
      collect: () => seriesBy("proxy_strategy", this.#gauges.readyBackends?.()),
    });
    registry.add({
      name: `${UPSTREAM}pending_backend_dials`,
      help: "Current number of pending backend dial requests",
      type: "gauge",
      collect: () => unlabelled(this.#gauges.pendingDials?.() ?? 0),
    });
    registry.add({
      name: `${UPSTREAM}established_connections`,
      help: "Current number of established end-to-end connections (post-dial).",
      type: "gauge",
      collect: () => unlabelled(this.#gauges.establishedConnections?.() ?? 0),
    });
    registry.add({
      name: `${UPSTREAM}full_receive_channels`,
      help: "Number of current connections blocked by a full receive channel, partitioned by service method.",
      type: "gauge",
      collect: () => seriesBy("service_method", this.#gauges.fullReceiveChannels?.()),
    });
    registry.add({
      name: `${OWN}window_growth_bytes`,
      help: "What receive windows have grown by beyond their first size, all together. At its limit no window grows.",
      type: "gauge",
      collect: () => unlabelled(this.#gauges.windowGrowthBytes?.() ?? 0),
    });
    registry.add({
      name: `${OWN}window_growth_limit_bytes`,
      help: "What they may grow by, all together: --process-window.",
      type: "gauge",
      collect: () => unlabelled(this.#gauges.windowGrowthLimitBytes?.() ?? 0),
    });
  }

  #registerLeases(registry: MetricRegistry): void {
    registry.add({
      name: `${UPSTREAM}culled_leases_count`,
      help: "Count of expired leases that the lease garbage collection controller has culled.",
      type: "counter",
      collect: () => unlabelled(this.#culledLeases.value),
    });
    registry.add({
      name: `${UPSTREAM}lease_delete_latency_seconds`,
      help: "Latency of lease deletion calls by the garbage collection controller in seconds.",
      type: "histogram",
      collect: () => this.#leaseDeleteSeconds.series(),
    });
    // The spelling and the mix-up of the next two help texts are upstream's.
    registry.add({
      name: `${UPSTREAM}lease_delete_total`,
      help: "Count of lease delection calls by the garbage collection controller. Labeled by HTTP status code and reason.",
      type: "counter",
      collect: () => this.#leaseDeletes.series(),
    });
    registry.add({
      name: `${UPSTREAM}lease_list_total`,
      help: "Count of lease deletion calls by the garbage collection controller. Labeled by HTTP status code and reason.",
      type: "counter",
      collect: () => this.#leaseLists.series(),
    });
    registry.add({
      name: `${UPSTREAM}lease_list_latency_seconds`,
      help: "Latency of lease list calls by the garbage collection controller in seconds.",
      type: "histogram",
      collect: () => this.#leaseListSeconds.series(),
    });
  }
}

function seriesBy(label: string, values: ReadonlyMap<string, number> = new Map()): MetricSeries[] {
  return Array.from(values, ([key, value]) => ({ labels: { [label]: key }, value }));
}
