import {
  Counter,
  Histogram,
  LabelledCounter,
  LabelledHistogram,
  PacketCounters,
  StreamErrorCounters,
  unlabelled,
} from "@reachback/common";
import type { MetricRegistry, SegmentPackets } from "@reachback/common";

/** `to_agent` is what the agent receives, `from_agent` what it sends. */
export type AgentSegment = "to_agent" | "from_agent";

/** Why an endpoint could not be dialed. */
export type EndpointDialFailureReason = "timeout" | "unknown";

/** Which way a tunnel failed: sending to the server, or receiving from it. */
export type ServerConnectionFailureDirection = "to_server" | "from_server";

/** What came of an attempt to open a tunnel; `duplicate`: its server has one already. */
export type TunnelAttemptOutcome = "opened" | "duplicate" | "failed";

/** Where the gauges get their values: read at each scrape, so that none of them is ever stale. */
export interface AgentGauges {
  openServerConnections(): number;
  connectedServers(): number;
  knownServerCount(): number;
  openEndpointConnections(): number;

  /** What all receive windows have grown by, and may grow by: `--process-window`. */
  windowGrowthBytes(): number;
  windowGrowthLimitBytes(): number;
}

const UPSTREAM = "konnectivity_network_proxy_agent_";
const OWN = "reachback_agent_";

const LATENCY_BOUNDS = [0.005, 0.025, 0.1, 0.5, 2.5, 10, 30];

/**
 * Everything the agent counts, under upstream's names and under `reachback_agent_` where upstream
 * has none.
 *
 * What happens per packet is an addition; all else is done when a scrape asks. Like upstream's, a
 * counter with labels and a histogram are absent until they are used. Gauges are there from the
 * start, upstream's only from their first change.
 */
export class AgentMetrics {
  /** Packets, before a send is tried and after a receive. */
  readonly packets: { readonly toAgent: SegmentPackets; readonly fromAgent: SegmentPackets };

  /** Payload of proxied connections. */
  readonly bytes = { toEndpoint: new Counter(), fromEndpoint: new Counter() };

  readonly #packets = new PacketCounters<AgentSegment>(["to_agent", "from_agent"]);
  readonly #streamErrors = new StreamErrorCounters();
  readonly #dialSeconds = new Histogram(LATENCY_BOUNDS);
  readonly #dialFailures = new LabelledCounter(["reason"]);
  readonly #serverConnectionFailures = new LabelledCounter(["direction"]);
  readonly #tunnelAttempts = new LabelledCounter(["outcome"]);
  readonly #opened = new Counter();
  readonly #closed = new LabelledCounter(["reason"]);
  readonly #leaseLists = new LabelledCounter(["http_response_code", "reason"]);
  readonly #leaseListSeconds = new LabelledHistogram("http_response_code", LATENCY_BOUNDS);
  readonly #leaseWatches = new LabelledCounter(["http_response_code", "reason"]);
  #gauges: Partial<AgentGauges> = {};

  constructor(registry: MetricRegistry) {
    this.packets = {
      toAgent: this.#packets.of("to_agent"),
      fromAgent: this.#packets.of("from_agent"),
    };
    this.#registerTraffic(registry);
    this.#registerGauges(registry);
    this.#registerLeases(registry);
  }

  /** Say where gauges get their values. May be called by several owners, each for its own. */
  gauges(sources: Partial<AgentGauges>): void {
    this.#gauges = { ...this.#gauges, ...sources };
  }

  /** An endpoint accepted the connection, so long after it was dialed. */
  endpointDialed(durationSeconds: number): void {
    this.#dialSeconds.observe(durationSeconds);
  }

  endpointDialFailed(reason: EndpointDialFailureReason): void {
    this.#dialFailures.increment({ reason });
  }

  connectionOpened(): void {
    this.#opened.add();
  }

  /** @param reason - from the closed set of reasons a connection ends for. */
  connectionClosed(reason: string): void {
    this.#closed.increment({ reason });
  }

  /** An attempt to open a tunnel was answered or failed; not one that was given up as needless. */
  tunnelAttempted(outcome: TunnelAttemptOutcome): void {
    this.#tunnelAttempts.increment({ outcome });
  }

  serverConnectionFailed(direction: ServerConnectionFailureDirection): void {
    this.#serverConnectionFailures.increment({ direction });
  }

  /** See {@link StreamErrorCounters.count}. */
  streamFailed(segment: AgentSegment, code: number, packetType?: number): void {
    this.#streamErrors.count(segment, code, packetType);
  }

  /** The apiserver answered a list of server leases. */
  leasesListed(httpStatusCode: number, reason: string, durationSeconds: number): void {
    const status = String(httpStatusCode);
    this.#leaseLists.increment({ http_response_code: status, reason });
    this.#leaseListSeconds.observe(status, durationSeconds);
  }

  /** The apiserver answered a watch of server leases; upstream counts it among the lists. */
  leasesWatched(httpStatusCode: number, reason: string): void {
    this.#leaseWatches.increment({ http_response_code: String(httpStatusCode), reason });
  }

  #registerTraffic(registry: MetricRegistry): void {
    registry.add({
      name: `${UPSTREAM}dial_duration_seconds`,
      help: "Latency of dial to the remote endpoint in seconds",
      type: "histogram",
      collect: () => this.#dialSeconds.series(),
    });
    registry.add({
      name: `${UPSTREAM}endpoint_dial_failure_total`,
      help: "Number of failures dialing the remote endpoint, by reason (example: timeout).",
      type: "counter",
      collect: () => this.#dialFailures.series(),
    });
    registry.add({
      name: `${UPSTREAM}server_connection_failure_count`,
      help: "Count of failures to send to or receive from the proxy server, labeled by the direction (from_server or to_server). DEPRECATED, please use stream_events_error_total",
      type: "counter",
      collect: () => this.#serverConnectionFailures.series(),
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
      name: `${OWN}tunnel_attempts_total`,
      help: "Attempts to open a tunnel to a server, by outcome (opened, duplicate, failed). In steady state there are none.",
      type: "counter",
      collect: () => this.#tunnelAttempts.series(),
    });
    registry.add({
      name: `${OWN}connection_bytes_total`,
      help: "Payload bytes of proxied connections, by direction.",
      type: "counter",
      collect: () => [
        { labels: { direction: "to_endpoint" }, value: this.bytes.toEndpoint.value },
        { labels: { direction: "from_endpoint" }, value: this.bytes.fromEndpoint.value },
      ],
    });
    registry.add({
      name: `${OWN}connections_opened_total`,
      help: "Endpoint connections that were established.",
      type: "counter",
      collect: () => unlabelled(this.#opened.value),
    });
    registry.add({
      name: `${OWN}connections_closed_total`,
      help: "Endpoint connections that were established and have ended, by reason.",
      type: "counter",
      collect: () => this.#closed.series(),
    });
  }

  #registerGauges(registry: MetricRegistry): void {
    registry.add({
      name: `${UPSTREAM}open_server_connections`,
      help: "Current number of open server connections.",
      type: "gauge",
      collect: () => unlabelled(this.#gauges.openServerConnections?.() ?? 0),
    });
    registry.add({
      name: `${OWN}connected_servers`,
      help: "Servers that have their tunnel. Open server connections besides are those that drain.",
      type: "gauge",
      collect: () => unlabelled(this.#gauges.connectedServers?.() ?? 0),
    });
    registry.add({
      name: `${UPSTREAM}known_server_count`,
      help: "Current number of servers agent is trying to connect to.",
      type: "gauge",
      collect: () => unlabelled(this.#gauges.knownServerCount?.() ?? 0),
    });
    registry.add({
      name: `${UPSTREAM}open_endpoint_connections`,
      help: "Current number of open endpoint connections.",
      type: "gauge",
      collect: () => unlabelled(this.#gauges.openEndpointConnections?.() ?? 0),
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
      name: `${UPSTREAM}lease_lists_total`,
      help: "Count of server lease list calls made by the agent to the k8s apiserver, labeled by HTTP response code and reason",
      type: "counter",
      collect: () => this.#leaseLists.series(),
    });
    registry.add({
      name: `${UPSTREAM}lease_watches_total`,
      help: "Count of server lease watch calls made by the agent to the k8s apiserver, labeled by HTTP response code and reason",
      type: "counter",
      collect: () => this.#leaseWatches.series(),
    });
    registry.add({
      name: `${UPSTREAM}lease_list_latency_seconds`,
      help: "Latency of server lease listing in seconds",
      type: "histogram",
      collect: () => this.#leaseListSeconds.series(),
    });
  }
}
