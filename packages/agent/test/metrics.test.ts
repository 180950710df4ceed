import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { MetricRegistry } from "@reachback/common";
import { readExposition } from "@reachback/common/testing";
import { AgentMetrics } from "../src/metrics.ts";
import type { AgentSegment, EndpointDialFailureReason } from "../src/metrics.ts";

const golden = readFileSync(
  new URL("../../../test/golden/metrics-agent.txt", import.meta.url),
  "utf8",
);

const PREFIX = "konnectivity_network_proxy_agent_";

const PACKET_TYPES = [
  "DIAL_REQ",
  "DIAL_RSP",
  "CLOSE_REQ",
  "CLOSE_RSP",
  "DATA",
  "DIAL_CLS",
  "DRAIN",
];

function setup() {
  const registry = new MetricRegistry();
  return { metrics: new AgentMetrics(registry), scrape: () => registry.exposition() };
}

/** Let `metrics` count what the golden file has counted. */
function replay(metrics: AgentMetrics): void {
  const packets = { to_agent: metrics.packets.toAgent, from_agent: metrics.packets.fromAgent };
  for (const { name, labels, value } of readExposition(golden)) {
    for (let n = 0; n < value; n++) {
      if (name === `${PREFIX}stream_packets_total`) {
        const type = PACKET_TYPES.indexOf(labels["packet_type"] ?? "");
        packets[labels["segment"] as AgentSegment].count(type);
      } else if (name === `${PREFIX}endpoint_dial_failure_total`) {
        metrics.endpointDialFailed(labels["reason"] as EndpointDialFailureReason);
      } else if (name === `${PREFIX}dial_duration_seconds_count`) {
        metrics.endpointDialed(0.0002);
      }
    }
  }
  metrics.gauges({
    knownServerCount: () => 3,
    openServerConnections: () => 1,
    openEndpointConnections: () => 0,
  });
}

function upstreamLines(text: string): readonly string[] {
  return text
    .split("\n")
    .filter((line) => line.includes(PREFIX))
    .map((line) => line.replace(/^(\S+_seconds_sum) .*/, "$1 <host>"));
}

describe("AgentMetrics", () => {
  it("writes upstream's file, line for line, after the same traffic", async () => {
    const { metrics, scrape } = setup();
    replay(metrics);
    assert.deepEqual(upstreamLines(await scrape()), upstreamLines(golden));
  });

  it("has the gauges that test runners look for before the first server is reached", async () => {
    const samples = readExposition(await setup().scrape()).map(
      ({ name, labels, value }) =>
        `${name.replace(PREFIX, "")} ${Object.values(labels).join()} ${value}`,
    );
    assert.deepEqual(samples, [
      "known_server_count  0",
      "open_endpoint_connections  0",
      "open_server_connections  0",
      "reachback_agent_connected_servers  0",
      "reachback_agent_connection_bytes_total from_endpoint 0",
      "reachback_agent_connection_bytes_total to_endpoint 0",
      "reachback_agent_connections_opened_total  0",
      "reachback_agent_window_growth_bytes  0",
      "reachback_agent_window_growth_limit_bytes  0",
    ]);
  });

  it("counts bytes each way and connections by why they ended", async () => {
    const { metrics, scrape } = setup();
    metrics.bytes.toEndpoint.add(10);
    metrics.bytes.fromEndpoint.add(20);
    metrics.connectionOpened();
    metrics.connectionClosed("finished");
    const text = await scrape();
    assert.match(text, /^reachback_agent_connection_bytes_total\{direction="to_endpoint"\} 10$/m);
    assert.match(text, /^reachback_agent_connection_bytes_total\{direction="from_endpoint"\} 20$/m);
    assert.match(text, /^reachback_agent_connections_opened_total 1$/m);
    assert.match(text, /^reachback_agent_connections_closed_total\{reason="finished"\} 1$/m);
  });

  it("has upstream's other series once they are used", async () => {
    const { metrics, scrape } = setup();
    metrics.serverConnectionFailed("to_server");
    metrics.streamFailed("from_agent", 14, 4);
    metrics.leasesListed(200, "", 0.1);
    metrics.leasesWatched(410, "Gone");
    const text = await scrape();
    for (const line of [
      `# HELP ${PREFIX}server_connection_failure_count Count of failures to send to or receive from the proxy server, labeled by the direction (from_server or to_server). DEPRECATED, please use stream_events_error_total`,
      `${PREFIX}server_connection_failure_count{direction="to_server"} 1`,
      `# HELP ${PREFIX}stream_errors_total Count of gRPC stream errors, by segment, grpc Code, packet type. (example: from_agent, Code.Unavailable, DIAL_RSP)`,
      `${PREFIX}stream_errors_total{code="Unavailable",packet_type="DATA",segment="from_agent"} 1`,
      `# HELP ${PREFIX}lease_lists_total Count of server lease list calls made by the agent to the k8s apiserver, labeled by HTTP response code and reason`,
      `${PREFIX}lease_lists_total{http_response_code="200",reason=""} 1`,
      `# HELP ${PREFIX}lease_watches_total Count of server lease watch calls made by the agent to the k8s apiserver, labeled by HTTP response code and reason`,
      `${PREFIX}lease_watches_total{http_response_code="410",reason="Gone"} 1`,
      `# HELP ${PREFIX}lease_list_latency_seconds Latency of server lease listing in seconds`,
      `${PREFIX}lease_list_latency_seconds_bucket{http_response_code="200",le="0.1"} 1`,
    ]) {
      assert.ok(text.split("\n").includes(line), line);
    }
  });
});
