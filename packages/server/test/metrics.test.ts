import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { MetricRegistry } from "@reachback/common";
import { readExposition } from "@reachback/common/testing";
import type { ExposedSample } from "@reachback/common/testing";
import { ServerMetrics } from "../src/metrics.ts";
import type { DialFailureReason, ServerSegment } from "../src/metrics.ts";

const golden = readFileSync(
  new URL("../../../test/golden/metrics-server.txt", import.meta.url),
  "utf8",
);

const PREFIX = "konnectivity_network_proxy_server_";

const PACKET_TYPES = [
  "DIAL_REQ",
  "DIAL_RSP",
  "CLOSE_REQ",
  "CLOSE_RSP",
  "DATA",
  "DIAL_CLS",
  "DRAIN",
];
const GRPC_CODES: Readonly<Record<string, number>> = {
  Canceled: 1,
  ResourceExhausted: 8,
  Internal: 13,
};

function setup() {
  const registry = new MetricRegistry();
  return { metrics: new ServerMetrics(registry), scrape: () => registry.exposition() };
}

/** One value below or at each upper bound, as often as the golden histogram has seen one. */
function observationsOf(histogram: string): readonly number[] {
  let before = 0;
  return readExposition(golden)
    .filter(({ name }) => name === `${PREFIX}${histogram}_bucket`)
    .flatMap(({ labels, value }) => {
      const bound = labels["le"] === "+Inf" ? 1e9 : Number(labels["le"]);
      const observations = new Array<number>(value - before).fill(bound);
      before = value;
      return observations;
    });
}

/** Let `metrics` count what the golden file has counted. */
function replay(metrics: ServerMetrics): void {
  const packets = {
    from_client: metrics.packets.fromClient,
    to_client: metrics.packets.toClient,
    from_agent: metrics.packets.fromAgent,
    to_agent: metrics.packets.toAgent,
  };
  const replays: Readonly<Record<string, (labels: ExposedSample["labels"]) => void>> = {
    stream_packets_total: ({ segment, packet_type: type = "" }) => {
      const known = PACKET_TYPES.indexOf(type);
      packets[segment as ServerSegment].count(known < 0 ? Number(type) : known);
    },
    stream_errors_total: ({ segment, code = "" }) => {
      metrics.streamFailed(segment as ServerSegment, GRPC_CODES[code] ?? 2);
    },
    dial_failure_count: ({ reason }) => {
      metrics.dialFailed(reason as DialFailureReason);
    },
  };
  for (const { name, labels, value } of readExposition(golden)) {
    for (let n = 0; n < value; n++) replays[name.slice(PREFIX.length)]?.(labels);
  }
  for (const seconds of observationsOf("dial_duration_seconds")) metrics.dialSucceeded(seconds, 0);
  for (const seconds of observationsOf("frontend_write_duration_seconds")) {
    metrics.frontendWrote(seconds);
  }
  for (const seconds of observationsOf("connection_duration_seconds")) {
    metrics.connectionClosed("finished", seconds);
  }
  metrics.gauges({
    grpcConnections: () => new Map([["Proxy", 1] as const, ["Connect", 1] as const]),
    fullReceiveChannels: () => new Map([["Connect", 0] as const]),
    readyBackends: () => new Map([["default", 1]]),
    readyBackendConnections: () => 1,
  });
}

function upstreamLines(text: string): readonly string[] {
  return text
    .split("\n")
    .filter((line) => line.includes(PREFIX))
    .map((line) => line.replace(/^(\S+_seconds_sum) .*/, "$1 <host>"));
}

describe("ServerMetrics", () => {
  it("writes upstream's file, line for line, after the same traffic", async () => {
    const { metrics, scrape } = setup();
    replay(metrics);
    assert.deepEqual(upstreamLines(await scrape()), upstreamLines(golden));
  });

  it("has every gauge and nothing that is used later before the first agent comes", async () => {
    const { metrics, scrape } = setup();
    metrics.gauges({ readyBackends: () => new Map([["default", 0]]) });
    const samples = readExposition(await scrape()).map(
      ({ name, labels, value }) =>
        `${name.replace(PREFIX, "")} ${Object.values(labels).join()} ${value}`,
    );
    assert.deepEqual(samples, [
      "culled_leases_count  0",
      "established_connections  0",
      "http_connections  0",
      "pending_backend_dials  0",
      "ready_backend_connections  0",
      "ready_backends default 0",
      "reachback_server_connection_bytes_total from_agent 0",
      "reachback_server_connection_bytes_total to_agent 0",
      "reachback_server_connections_opened_total  0",
      "reachback_server_tunnels_turned_away_total  0",
      "reachback_server_window_growth_bytes  0",
      "reachback_server_window_growth_limit_bytes  0",
    ]);
  });

  it("asks for gauges at each scrape, whoever owns them", async () => {
    const { metrics, scrape } = setup();
    let pending = 3;
    metrics.gauges({ pendingDials: () => pending });
    metrics.gauges({ establishedConnections: () => 7, httpConnections: () => 2 });
    assert.match(await scrape(), /pending_backend_dials 3\n/);
    pending = 0;
    const text = await scrape();
    assert.match(text, /pending_backend_dials 0\n/);
    assert.match(text, /established_connections 7\n/);
    assert.match(text, /http_connections 2\n/);
  });

  it("counts bytes each way and connections by why they ended", async () => {
    const { metrics, scrape } = setup();
    metrics.bytes.toAgent.add(10);
    metrics.bytes.fromAgent.add(2 ** 40);
    metrics.connectionOpened();
    metrics.connectionClosed("reset", 0.5);
    const text = await scrape();
    assert.match(text, /^reachback_server_connection_bytes_total\{direction="to_agent"\} 10$/m);
    assert.match(text, /\{direction="from_agent"\} 1\.099511627776e\+12$/m);
    assert.match(text, /^reachback_server_connections_opened_total 1$/m);
    assert.match(text, /^reachback_server_connections_closed_total\{reason="reset"\} 1$/m);
  });

  it("has upstream's lease metrics once a lease is listed or deleted", async () => {
    const { metrics, scrape } = setup();
    metrics.leasesListed(200, "", 0.004);
    metrics.leaseDeleted(404, "NotFound", 3);
    metrics.leaseCulled();
    const text = await scrape();
    for (const line of [
      `# HELP ${PREFIX}culled_leases_count Count of expired leases that the lease garbage collection controller has culled.`,
      `${PREFIX}culled_leases_count 1`,
      `# HELP ${PREFIX}lease_delete_latency_seconds Latency of lease deletion calls by the garbage collection controller in seconds.`,
      `# TYPE ${PREFIX}lease_delete_latency_seconds histogram`,
      `${PREFIX}lease_delete_latency_seconds_bucket{http_status_code="404",le="2.5"} 0`,
      `${PREFIX}lease_delete_latency_seconds_bucket{http_status_code="404",le="5"} 1`,
      `# HELP ${PREFIX}lease_delete_total Count of lease delection calls by the garbage collection controller. Labeled by HTTP status code and reason.`,
      `${PREFIX}lease_delete_total{http_status_code="404",reason="NotFound"} 1`,
      `# HELP ${PREFIX}lease_list_latency_seconds Latency of lease list calls by the garbage collection controller in seconds.`,
      `${PREFIX}lease_list_latency_seconds_bucket{http_status_code="200",le="0.005"} 1`,
      `# HELP ${PREFIX}lease_list_total Count of lease deletion calls by the garbage collection controller. Labeled by HTTP status code and reason.`,
      `# TYPE ${PREFIX}lease_list_total counter`,
      `${PREFIX}lease_list_total{http_status_code="200",reason=""} 1`,
    ]) {
      assert.ok(text.split("\n").includes(line), line);
    }
  });

  it("keeps two servers in one process apart", async () => {
    const [one, other] = [setup(), setup()];
    one.metrics.dialFailed("no_agent");
    assert.match(await one.scrape(), /dial_failure_count\{reason="no_agent"\} 1/);
    assert.doesNotMatch(await other.scrape(), /dial_failure_count/);
  });
});
