import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";
import type { Cluster } from "../../demo/src/cluster/cluster.ts";
import { startAgentProgram } from "../support/agent-program.ts";
import type { AgentProgram } from "../support/agent-program.ts";
import { startServer, statusOf, until } from "../support/cluster.ts";
import { FRONTENDS, startApiservers, startDemoKubelet } from "../support/demo-cluster.ts";
import { freePorts } from "../support/free-ports.ts";
import { kubectlMissing } from "../support/kubectl.ts";
import type { KubectlProcess } from "../support/kubectl.ts";

/** "Within seconds". */
const NOTICED_MS = 5_000;

test("the real kubectl, when an agent is killed", { skip: kubectlMissing }, async (t) => {
  const [kubeletPort = 0] = await freePorts(t, 1);
  const cluster: Cluster = {
    nodes: [{ name: "node-a", address: "127.0.0.1", kubeletPort }],
    pods: [{ name: "web", node: "node-a", ip: "127.0.0.1", ports: [] }],
    services: [],
  };
  const server = await startServer(t);
  await startDemoKubelet(t, cluster, "node-a");
  const { kubectl, log } = await startApiservers(t, cluster, server);

  for (const [index, frontend] of FRONTENDS.entries()) {
    await t.test(`through ${frontend}`, async (t) => {
      const first = await startReadyAgent(t, server.agentPort);
      const logs = kubectl[frontend].start(["logs", "--follow", "web"]);
      const command = kubectl[frontend].start([
        "exec",
        "web",
        "--",
        "sh",
        "-c",
        "echo up; sleep 60",
      ]);
      await logs.printed(/line 1\n/);
      await command.printed(/up\n/);

      // Killed, with another one there: what went through it fails, and nothing else does.
      const second = await startReadyAgent(t, server.agentPort);
      await Promise.all([
        kill(first),
        failsWithin(NOTICED_MS, logs, /unexpected EOF|stream error/),
        failsWithin(NOTICED_MS, command, /abnormal closure|unexpected EOF/),
      ]);
      const lost = log.filter((line) => line.includes("connection.lost"));
      assert.equal(lost.length, 2 * (index + 1));
      const atOnce = await kubectl[frontend].run(["logs", "--tail=1", "web"]);
      assert.equal(atOnce.code, 0, atOnce.stderr);

      // The last one killed: the error says so, until one is back.
      await kill(second);
      const meanwhile = await kubectl[frontend].run(["logs", "web"]);
      assert.equal(meanwhile.code, 1);
      assert.match(meanwhile.stderr, /error dialing backend .*: .*(No agent available|503)/);
      await startReadyAgent(t, server.agentPort);
      const again = await kubectl[frontend].run(["exec", "web", "--", "echo", "back"]);
      assert.equal(again.stdout, "back\n", again.stderr);
    });
  }
});

async function startReadyAgent(t: TestContext, serverPort: number): Promise<AgentProgram> {
  const agent = await startAgentProgram(t, serverPort);
  const isReady = async () => (await statusOf(agent.healthPort, "/readyz").catch(() => 0)) === 200;
  const died = agent.exited.then(({ code, stderr }) => {
    throw new Error(`the agent exited with ${code ?? "a signal"}: ${stderr}`);
  });
  await Promise.race([until(isReady), died]);
  // Later it is killed, and that is no failure.
  died.catch(() => undefined);
  return agent;
}

async function kill(agent: AgentProgram): Promise<void> {
  agent.signal("SIGKILL");
  await agent.exited;
}

async function failsWithin(ms: number, { exited }: KubectlProcess, pattern: RegExp): Promise<void> {
  const startedAtMs = performance.now();
  const { code, stderr } = await exited;
  assert.equal(code, 1);
  assert.match(stderr, pattern);
  const tookMs = performance.now() - startedAtMs;
  assert.ok(tookMs < ms, `kubectl noticed after ${tookMs} ms`);
}
