import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Agent, AgentOptions } from "@reachback/agent";
import { startBalancerProcess } from "../support/balancer-process.ts";
import { freePorts } from "../support/free-ports.ts";
import { startAgent } from "../support/cluster.ts";
import { startServerProgram } from "../support/server-program.ts";
import type { ServerProgramOptions } from "../support/server-program.ts";

// The servers are processes, so that they can be killed; the agents are in this one, with the
// defaults of their program; a balancer is a process as well.

const AGENTS = 20;
const PACE = { syncIntervalMs: 1_000, syncIntervalCapMs: 10_000 };

const WHOLE_AGAIN_MS = 5_000;

/** How long a killed server is away. */
const AWAY_MS = 2_000;

async function planServers(t: TestContext, count: number): Promise<ServerProgramOptions[]> {
  const ports = await freePorts(t, 3 * count);
  return Array.from({ length: count }, (_, index) => ({
    serverId: `server-${index + 1}`,
    agentPort: ports[3 * index]!,
    healthPort: ports[3 * index + 1]!,
    adminPort: ports[3 * index + 2]!,
    args: [`--server-count=${count}`, "--v=0"],
  }));
}

/** Agents that are ready only with a tunnel to every server. */
function startAgents(
  t: TestContext,
  port: number,
  overrides: Partial<AgentOptions> = {},
): Promise<Agent[]> {
  return Promise.all(
    Array.from({ length: AGENTS }, (_, index) =>
      startAgent(t, port, {
        agentId: `agent-${index + 1}`,
        ...PACE,
        readyMinServers: "all",
        ...overrides,
      }),
    ),
  );
}

/** How long it takes until every agent has a tunnel to each server, in milliseconds. */
async function msUntilMeshed(agents: readonly Agent[], limitMs: number): Promise<number> {
  const startMs = performance.now();
  for (;;) {
    const passedMs = performance.now() - startMs;
    const waiting = agents.filter(({ isReady }) => !isReady).length;
    if (waiting === 0) return passedMs;
    assert.ok(passedMs < limitMs, `${waiting} agents still wait after ${Math.round(passedMs)} ms`);
    await sleep(10);
  }
}

describe("twenty agents", () => {
  for (const way of ["a list of servers", "a random balancer"]) {
    it(`are whole again 5 s after a killed server of 3 is back, with ${way}`, async (t) => {
      const plans = await planServers(t, 3);
      const servers = await Promise.all(plans.map((plan) => startServerProgram(t, plan)));
      const targets = servers.map(({ agentPort }) => agentPort);
      let agents: Agent[];
      if (way === "a list of servers") {
        agents = await startAgents(t, 0, {
          serverDiscovery: "list",
          servers: targets.map((port) => ({ host: "127.0.0.1", port, name: "127.0.0.1" })),
        });
      } else {
        agents = await startAgents(t, (await startBalancerProcess(t, targets, 11)).port);
      }
      t.diagnostic(`first mesh after ${Math.round(await msUntilMeshed(agents, 15_000))} ms`);

      await servers[1]!.kill();
      await sleep(AWAY_MS);
      assert.ok(agents.every(({ isReady }) => !isReady));
      await startServerProgram(t, { ...plans[1]!, serverId: "server-2-again" });
      t.diagnostic(
        `whole again after ${Math.round(await msUntilMeshed(agents, WHOLE_AGAIN_MS))} ms`,
      );
    });
  }

  it("have a tunnel to each of 5 servers behind a random balancer within 15 s", async (t) => {
    const plans = await planServers(t, 5);
    const servers = await Promise.all(plans.map((plan) => startServerProgram(t, plan)));
    const balancer = await startBalancerProcess(
      t,
      servers.map(({ agentPort }) => agentPort),
      12,
    );
    const startMs = performance.now();
    const agents = await startAgents(t, balancer.port);
    await msUntilMeshed(agents, 15_000 - (performance.now() - startMs));
    const tookMs = Math.round(performance.now() - startMs);
    // Those that were on their way when the last tunnel opened count as well.
    await sleep(500);
    const before = await balancer.connectionCount();
    t.diagnostic(`meshed after ${tookMs} ms with ${before} connections`);

    // No attempt in steady state.
    await sleep(5_000);
    assert.equal(await balancer.connectionCount(), before);
    assert.ok(agents.every(({ isReady }) => isReady));
  });
});
