import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ManualClock } from "@reachback/common/testing";
import { startNameServer } from "../../packages/agent/test/lookup/fake-name-server.ts";
import { startAgentServer } from "../support/agent-server.ts";
import { startServer, until } from "../support/cluster.ts";
import { startHttp2Peer, startTcpPeer } from "../support/http2-peer.ts";
import { createTestPki } from "../support/pki.ts";
import { TcpBalancer } from "../support/tcp-balancer.ts";
import { startTrackedAgent } from "../support/tracked-agent.ts";
import { checkForLeaksAtEnd } from "../support/tracked-clock.ts";

const at = (port: number) => ({ host: "127.0.0.1", port, name: "127.0.0.1" });

async function ready(port: number): Promise<{ status: number; body: string }> {
  const response = await fetch(`http://127.0.0.1:${port}/readyz?verbose`, {
    headers: { connection: "close" },
  });
  return { status: response.status, body: await response.text() };
}

checkForLeaksAtEnd();

describe("an agent with a list of servers", () => {
  it("is not kept from the others by one that is mute, and says who is missing", async (t) => {
    let muteCount = 0;
    const mute = await startTcpPeer(t, (socket) => {
      muteCount++;
      socket.on("error", () => undefined);
      socket.resume();
    });
    const servers = await Promise.all(
      ["a", "b", "c"].map((serverId) => startAgentServer(t, { serverId })),
    );
    const { agent, metric } = await startTrackedAgent(t, 0, {
      servers: [at(mute), ...servers.map(({ port }) => at(port))],
      serverDiscovery: "list",
      readyMinServers: "all",
    });
    await until(async () => (await metric("reachback_agent_connected_servers")) === "3");
    assert.equal(muteCount, 1);
    assert.equal(await metric("known_server_count"), "4");
    assert.equal(agent.isReady, false);
    const { status, body } = await ready(agent.ports.health);
    assert.equal(status, 503);
    assert.match(
      body,
      /^\[-\]server-connected failed: 3 of 4, needed are all \(--ready-min-servers\)$/m,
    );
  });
});

describe("an agent that finds servers in DNS", () => {
  it("follows what a name server says", async (t) => {
    const pki = createTestPki();
    const { certPath, keyPath } = pki.issue({ ca: pki.agentCa, sans: ["servers.test"] });
    const tls = { clusterCertPath: certPath, clusterKeyPath: keyPath };
    const first = await startServer(t, { ...tls, serverId: "1" });
    const { agentPort } = first;
    await startServer(t, { ...tls, serverId: "2", agentBindAddress: "127.0.0.2", agentPort });
    const zone = { "servers.test": { v4: ["127.0.0.1"] } };
    const nameServer = await startNameServer(t, zone);
    const { metric } = await startTrackedAgent(t, 0, {
      servers: [{ host: "servers.test.", port: agentPort, name: "servers.test" }],
      serverDiscovery: "dns",
      serverLookupIntervalMs: 50,
      serverResolvers: [nameServer.address],
    });
    const connected = () => metric("reachback_agent_connected_servers");
    await until(async () => (await connected()) === "1");
    zone["servers.test"] = { v4: ["127.0.0.1", "127.0.0.2"] };
    await until(async () => (await connected()) === "2");
    zone["servers.test"] = { v4: ["127.0.0.2"] };
    await until(async () => (await connected()) === "1");
    await until(async () => (await metric("open_server_connections")) === "1");
    const attempts = 'reachback_agent_tunnel_attempts_total{outcome="opened"}';
    assert.equal(await metric(attempts), "2");
  });

  it("looks the name of a balancer up with the name servers that were given", async (t) => {
    const pki = createTestPki();
    const { certPath, keyPath } = pki.issue({ ca: pki.agentCa, sans: ["balancer.test"] });
    const server = await startServer(t, { clusterCertPath: certPath, clusterKeyPath: keyPath });
    const nameServer = await startNameServer(t, { "balancer.test": { v4: ["127.0.0.1"] } });
    const { agent, refusals } = await startTrackedAgent(t, 0, {
      servers: [{ host: "balancer.test.", port: server.agentPort, name: "balancer.test" }],
      serverResolvers: [nameServer.address],
    });
    await until(() => agent.isReady);
    assert.deepEqual(refusals(), []);
  });
});

describe("a tunnel to a server of ours", () => {
  it("is pinged after 15 s of silence, and given up 10 s later", async (t) => {
    const clock = new ManualClock(Date.now());
    const peer = await startHttp2Peer(t, {
      onRequest: ({ stream }) => {
        stream.respond({
          ":status": 200,
          "content-type": "application/grpc",
          serverid: "a",
          servercount: "1",
          "reachback-revision": "1",
        });
      },
    });
    const balancer = new TcpBalancer([peer.port]);
    const { agent } = await startTrackedAgent(
      t,
      await balancer.listen(t),
      { keepaliveTimeMs: 15_000, keepaliveTimeoutMs: 10_000 },
      { clock },
    );
    await until(() => agent.isReady);
    let pingCount = 0;
    peer.requests[0]!.session.on("ping", () => {
      pingCount++;
    });
    clock.advance(14_999);
    await sleep(5);
    assert.equal(pingCount, 0);
    clock.advance(1);
    await until(() => pingCount === 1);
    await sleep(5);
    balancer.freeze();
    clock.advance(15_000);
    clock.advance(9_999);
    assert.equal(agent.isReady, true);
    clock.advance(1);
    await until(() => !agent.isReady);
  });
});
