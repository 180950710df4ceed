import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { readExposition } from "@reachback/common/testing";
import { startAgentProgram } from "../support/agent-program.ts";
import type { AgentProgram } from "../support/agent-program.ts";
import { statusOf, until } from "../support/cluster.ts";
import { freePorts } from "../support/free-ports.ts";
import { scrape } from "../support/gauges.ts";
import { startServerProgram } from "../support/server-program.ts";
import type { ServerProgram } from "../support/server-program.ts";
import { RollingLoad } from "./rolling-load.ts";

// Every process of a system is replaced, one after the other, while it works. Servers and agents are
// processes; each is told to stop, and the next one is started in its place when it is gone.

const AGENTS = 3;
const SERVERS = 2;
const GRACE = "45s";

/** The default of `--drain-linger` and of `--shutdown-delay`. */
const LINGER_MS = 5_000;

/** `ROLLING_DOWNLOAD_SECONDS=30` is the full size, which takes four minutes. */
const DOWNLOAD_SECONDS = Number(process.env["ROLLING_DOWNLOAD_SECONDS"] ?? 8);

const BUSY_POLL_MS = 50;

/** Gauges of what keeps a process from going. */
const AGENT_BUSY = ["konnectivity_network_proxy_agent_open_endpoint_connections"];
const SERVER_BUSY = [
  "konnectivity_network_proxy_server_established_connections",
  "konnectivity_network_proxy_server_pending_backend_dials",
];

/** Tell a process to stop, and check that it goes when it has nothing left to do, not before. */
async function leave(
  t: TestContext,
  name: string,
  healthPort: number,
  gauges: readonly string[],
  terminate: () => Promise<number | null>,
): Promise<void> {
  const toldAtMs = performance.now();
  let lastBusyAtMs = toldAtMs;
  let isGone = false;
  const gone = terminate().finally(() => {
    isGone = true;
  });
  const watch = async () => {
    while (!isGone) {
      const text = await scrape(healthPort).catch(() => "");
      const isBusy = readExposition(text).some((sample) => {
        return gauges.includes(sample.name) && sample.value > 0;
      });
      if (isBusy) lastBusyAtMs = performance.now();
      await sleep(BUSY_POLL_MS);
    }
  };
  const watched = watch();
  const code = await gone;
  const goneAtMs = performance.now();
  await watched;
  const tookMs = Math.round(goneAtMs - toldAtMs);
  const idleMs = Math.round(goneAtMs - Math.max(lastBusyAtMs, toldAtMs + LINGER_MS));
  t.diagnostic(`${name} was gone after ${tookMs} ms, the last ${idleMs} of them idle`);
  assert.equal(code, 0, name);
  assert.ok(tookMs >= LINGER_MS, `${name} went after ${tookMs} ms`);
  assert.ok(idleMs <= 1_000, `${name} stayed for ${idleMs} ms with nothing to do`);
}

async function startAgent(t: TestContext, serverPorts: readonly number[]): Promise<AgentProgram> {
  const hosts = serverPorts.map((port) => `--proxy-server-host=127.0.0.1:${port}`);
  const agent = await startAgentProgram(t, 8091, {
    args: [...hosts, `--drain-timeout=${GRACE}`, "--sync-interval-cap=2s", "--v=0"],
  });
  await until(async () => (await statusOf(agent.healthPort, "/readyz").catch(() => 0)) === 200);
  return agent;
}

describe("a system that works", () => {
  it("loses nothing while all its agents and servers are replaced", async (t) => {
    const agentPorts = await freePorts(t, SERVERS);
    // Whoever asks the next one whether it is ready must not believe that the last one is.
    const ownPorts = await freePorts(t, 2 * 2 * SERVERS);
    const start = (index: number): Promise<ServerProgram> =>
      startServerProgram(t, {
        serverId: `server-${index + 1}`,
        agentPort: agentPorts[index]!,
        healthPort: ownPorts.pop()!,
        adminPort: ownPorts.pop()!,
        args: [`--graceful-shutdown-timeout=${GRACE}`, `--server-count=${SERVERS}`, "--v=0"],
      });
    const isReady = (server: ServerProgram) => async () =>
      (await statusOf(server.healthPort, "/readyz")) === 200;
    const servers = await Promise.all(agentPorts.map((_port, index) => start(index)));
    const agents = await Promise.all(
      Array.from({ length: AGENTS }, () => startAgent(t, agentPorts)),
    );
    for (const server of servers) await until(isReady(server));

    const load = await RollingLoad.prepare(t, {
      requestsPerSecond: 200,
      downloads: 20,
      downloadSeconds: DOWNLOAD_SECONDS,
    });
    for (const [index, server] of servers.entries()) load.use(`server-${index + 1}`, server);
    load.start();
    // Until all downloads are under way.
    await sleep(DOWNLOAD_SECONDS * 1_000);

    for (const [index, agent] of agents.entries()) {
      await leave(t, `agent ${index + 1}`, agent.healthPort, AGENT_BUSY, async () => {
        agent.signal("SIGTERM");
        return (await agent.exited).code;
      });
      await startAgent(t, agentPorts);
    }
    for (const [index, server] of servers.entries()) {
      const { healthPort } = server;
      await leave(t, `server ${index + 1}`, healthPort, SERVER_BUSY, () => server.terminate());
      const next = await start(index);
      await until(isReady(next));
      load.use(`server-${index + 1}`, next);
    }
    await load.stop();

    const { requests, retried, failed, downloads, broken } = load.result;
    t.diagnostic(`${requests} requests, ${retried.length} of them retried; ${downloads} downloads`);
    if (retried.length > 0) t.diagnostic(`retried because of ${[...new Set(retried)].join("; ")}`);
    assert.deepEqual(failed, []);
    assert.deepEqual(broken, []);
    assert.ok(downloads >= 20);
  });
});
