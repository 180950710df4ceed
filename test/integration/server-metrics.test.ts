import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { systemClock } from "@reachback/common";
import { ManualClock, readExposition } from "@reachback/common/testing";
import { startServer, until } from "../support/cluster.ts";
import { assertNothingLeft, scrape } from "../support/gauges.ts";
import { connectAsAgent, connectAsFrontend, openProxy, packets } from "../support/packet-stream.ts";
import { connectRaw } from "../support/raw-socket.ts";

// What dashboards see of real traffic: upstream's names, labels and help, and true numbers.

const golden = readFileSync(new URL("../golden/metrics-server.txt", import.meta.url), "utf8");
const PREFIX = "konnectivity_network_proxy_server_";

/** `# HELP` and `# TYPE` lines of upstream's metrics. */
function descriptions(exposition: string): string[] {
  return exposition.split("\n").filter((line) => /^# (?:HELP|TYPE) konnectivity_/.test(line));
}

/** Upstream's series without their values: `name{label="value"}`. */
function seriesOf(exposition: string): Map<string, number> {
  return new Map(
    readExposition(exposition)
      .filter(({ name }) => name.startsWith(PREFIX))
      .map(({ name, labels, value }) => {
        const pairs = Object.entries(labels).map(([key, text]) => `${key}="${text}"`);
        const braces = pairs.length === 0 ? "" : `{${pairs.sort().join(",")}}`;
        return [name.slice(PREFIX.length) + braces, value];
      }),
  );
}

describe("metrics of a server", () => {
  it("have upstream's names, labels and help, and count what happened", async (t) => {
    const clock = new ManualClock(systemClock.wallTimeMs());
    const server = await startServer(t, { backendDialTimeoutMs: 60 }, { clock });

    // No agent: over gRPC and over CONNECT.
    const lonely = openProxy(t, server).send(packets.dial(1));
    await lonely.next();
    lonely.end();
    await lonely.status;
    const refused = await connectRaw(t, server.connectPath);
    refused.write("CONNECT endpoint:80 HTTP/1.1\r\n\r\n");
    await refused.whenFinished();

    const agent = await connectAsAgent(t, server);
    const frontends = connectAsFrontend(t, server);
    const open = async (id: number) => {
      const stream = frontends.open().send(packets.dial(id));
      await agent.next();
      agent.send(packets.dialed(id, id));
      await stream.next();
      return stream;
    };

    // Closed by the client, with data both ways.
    let stream = await open(1);
    stream.send(packets.data(1, "three"), packets.data(1, "and"), packets.data(1, "more"));
    for (let i = 0; i < 3; i++) await agent.next();
    agent.send(packets.data(1, "two"), packets.data(1, "back"));
    for (let i = 0; i < 2; i++) await stream.next();
    stream.send(packets.close(1));
    await agent.next();
    agent.send(packets.closed(1));
    await stream.next();
    stream.end();
    await stream.status;

    // Closed by the endpoint, and what nobody should send.
    stream = await open(2);
    stream.send(packets.drain(), packets.dialed(9, 9), packets.closed(9));
    stream.sendBytes(Buffer.from("0863", "hex"));
    agent.send(packets.close(7), packets.closed(2));
    await stream.next();
    stream.end();
    await stream.status;

    // Refused, and given up by the client.
    stream = frontends.open().send(packets.dial(3));
    await agent.next();
    agent.send(packets.dialFailed(3, "no luck"));
    await stream.next();
    stream.send(packets.dial(4));
    await agent.next();
    stream.send(packets.dialClose(4));
    await agent.next();
    // Not answered in time, and answered too late.
    stream.send(packets.dial(5));
    await agent.next();
    clock.advance(60);
    await stream.next();
    await agent.next();
    agent.send(packets.dialed(5, 5));
    await agent.next();
    stream.cancel();
    await stream.status;

    // Over CONNECT: nothing of it is a packet of a client.
    const client = await connectRaw(t, server.connectPath);
    client.write("CONNECT endpoint:80 HTTP/1.1\r\n\r\nearly");
    agent.send(packets.dialed((await agent.nextPacket()).dialRequest?.random ?? "", 6));
    await agent.next();
    agent.send(packets.data(6, "hello"), packets.closed(6));
    await client.whenFinished();

    // Streams that cannot go on.
    stream = frontends.open();
    stream.sendBytes(Buffer.alloc(4_194_305));
    await stream.status;
    const broken = await connectAsAgent(t, server, { agentId: "broken" });
    broken.sendBytes(Buffer.from("ff", "hex"));
    await broken.status;
    const lost = await connectAsAgent(t, server, { agentId: "lost" });
    lost.cancel();
    await lost.status;
    const greedy = await connectAsAgent(t, server, { agentId: "greedy" });
    greedy.sendBytes(Buffer.alloc(4_194_305));
    await greedy.status;
    await assertNothingLeft(server);

    // One of each is left.
    const last = openProxy(t, server);
    await until(async () =>
      (await scrape(server.healthPort)).includes('grpc_connections{service_method="Proxy"} 1\n'),
    );
    const exposition = await scrape(server.healthPort);
    const ours = seriesOf(exposition);
    assert.deepEqual(
      descriptions(golden).filter((line) => !descriptions(exposition).includes(line)),
      [],
    );
    assert.deepEqual(
      [...seriesOf(golden).keys()].filter((name) => !ours.has(name)),
      [],
    );

    const counted = Object.fromEntries(
      [...ours].filter(([name]) => !/_(?:bucket|sum)|^lease_|^culled_/.test(name)),
    );
    const packet = (segment: string, type: string) =>
      `stream_packets_total{packet_type="${type}",segment="${segment}"}`;
    const error = (segment: string, code: string) =>
      `stream_errors_total{code="${code}",packet_type="Unknown",segment="${segment}"}`;
    const failure = (reason: string) => `dial_failure_count{reason="${reason}"}`;
    assert.deepEqual(counted, {
      [packet("from_client", "DIAL_REQ")]: 6,
      [packet("from_client", "DIAL_RSP")]: 1,
      [packet("from_client", "CLOSE_REQ")]: 1,
      [packet("from_client", "CLOSE_RSP")]: 1,
      [packet("from_client", "DATA")]: 3,
      [packet("from_client", "DIAL_CLS")]: 1,
      [packet("from_client", "DRAIN")]: 1,
      [packet("from_client", "99")]: 1,
      [packet("to_client", "DIAL_RSP")]: 5,
      [packet("to_client", "CLOSE_RSP")]: 2,
      [packet("to_client", "DATA")]: 2,
      [packet("from_agent", "DIAL_RSP")]: 5,
      [packet("from_agent", "CLOSE_REQ")]: 1,
      [packet("from_agent", "CLOSE_RSP")]: 3,
      [packet("from_agent", "DATA")]: 3,
      [packet("to_agent", "DIAL_REQ")]: 6,
      [packet("to_agent", "CLOSE_REQ")]: 2,
      [packet("to_agent", "DATA")]: 4,
      [packet("to_agent", "DIAL_CLS")]: 2,
      [failure("no_agent")]: 2,
      [failure("error_response")]: 1,
      [failure("frontend_close")]: 1,
      [failure("backend_dial_timeout")]: 1,
      [failure("unrecognized_response")]: 1,
      [error("from_client", "ResourceExhausted")]: 1,
      [error("from_client", "Canceled")]: 1,
      [error("from_agent", "Internal")]: 1,
      [error("from_agent", "ResourceExhausted")]: 1,
      [error("from_agent", "Canceled")]: 1,
      dial_duration_seconds_count: 3,
      connection_duration_seconds_count: 3,
      frontend_write_duration_seconds_count: 3,
      'grpc_connections{service_method="Proxy"}': 1,
      'grpc_connections{service_method="Connect"}': 1,
      http_connections: 0,
      pending_backend_dials: 0,
      established_connections: 0,
      ready_backend_connections: 1,
      'ready_backends{proxy_strategy="default"}': 1,
      'full_receive_channels{service_method="Connect"}': 0,
    });
    last.end();
  });

  it("show each gauge while it lasts", async (t) => {
    const server = await startServer(t, { proxyStrategies: ["destHost", "default"] });
    const values = async (...names: string[]) => {
      const series = seriesOf(await scrape(server.healthPort));
      return names.map((name) => series.get(name));
    };
    const keys = ["destHost", "default"].map((name) => `ready_backends{proxy_strategy="${name}"}`);
    assert.deepEqual(await values(...keys, "ready_backend_connections"), [0, 0, 0]);
    const agent = await connectAsAgent(t, server, { identifiers: "ipv4=10.0.0.1&host=a" });
    await connectAsAgent(t, server);
    await connectAsAgent(t, server, { agentId: "agent-2" });
    assert.deepEqual(await values(...keys, "ready_backend_connections"), [2, 2, 2]);
    assert.deepEqual(await values('grpc_connections{service_method="Connect"}'), [3]);

    const client = await connectRaw(t, server.connectPath);
    client.write("CONNECT 10.0.0.1:80 HTTP/1.1\r\n\r\n");
    const random = (await agent.nextPacket()).dialRequest?.random ?? "";
    const dialing = ["http_connections", "pending_backend_dials", "established_connections"];
    assert.deepEqual(await values(...dialing), [1, 1, 0]);
    agent.send(packets.dialed(random, 1));
    await client.whenSaid("200");
    assert.deepEqual(await values(...dialing), [1, 0, 1]);
    client.socket.destroy();
    await agent.next();
    assert.deepEqual(await values(...dialing), [0, 0, 0]);
  });
});
