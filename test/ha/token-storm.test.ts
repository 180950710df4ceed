import assert from "node:assert/strict";
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { startServer } from "../support/cluster.ts";
import {
  serviceAccountStatus,
  startKubernetesApi,
  writeKubeconfig,
} from "../support/kubernetes-api.ts";
import { createTestPki } from "../support/pki.ts";
import type { SimulationOrder, SimulationReport } from "./simulated-agents.ts";

const AGENTS = 5_000;
const REVIEWS_PER_SECOND = 50;
const ALL_BACK_MS = 120_000;

/** Agents in a process of their own; it ends with the test. */
class Simulation {
  #report: SimulationReport = { connected: 0, refusals: {} };
  #onReport: (() => void) | undefined;

  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.on("message", (report) => {
      this.#report = report as SimulationReport;
      this.#onReport?.();
    });
  }

  /** Resolves once the process is there. */
  static async start(t: TestContext): Promise<Simulation> {
    const child = fork(fileURLToPath(new URL("simulated-agents.ts", import.meta.url)));
    t.after(() => {
      child.kill("SIGKILL");
    });
    await once(child, "message");
    return new Simulation(child);
  }

  send(order: SimulationOrder): void {
    this.#child.send(order);
  }

  /** The latest report. */
  get report(): SimulationReport {
    return this.#report;
  }

  /** Resolves when so many agents have a tunnel; rejects after `withinMs`. */
  connected(count: number, withinMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`of ${count} agents connected: ${JSON.stringify(this.#report)}`));
      }, withinMs);
      this.#onReport = () => {
        if (this.#report.connected !== count) return;
        clearTimeout(timer);
        this.#onReport = undefined;
        resolve();
      };
    });
  }
}

describe("agents that come back all at once", () => {
  it(
    `are back within ${ALL_BACK_MS / 1000} s, ${AGENTS} of them at ${REVIEWS_PER_SECOND} reviews a second`,
    { timeout: ALL_BACK_MS + 60_000 },
    async (t) => {
      const api = await startKubernetesApi(t);
      const username = "system:serviceaccount:kube-system:konnectivity-agent";
      api.review = () => serviceAccountStatus(username, ["us"]);
      api.throttle(REVIEWS_PER_SECOND);
      api.lagMs = 200;
      // As after a restart: the server remembers nothing, and everybody comes.
      const server = await startServer(t, {
        clusterCaCertPath: "",
        kubeconfigPath: writeKubeconfig(t, api),
        // The defaults of the flags.
        tokenAuthentication: {
          namespace: "kube-system",
          serviceAccount: "konnectivity-agent",
          audience: "us",
          maxWaiting: 10_000,
          timeoutMs: 30_000,
          perSecond: 50,
          burst: 50,
          cacheTtlMs: 300_000,
        },
      });
      const rssBefore = process.memoryUsage.rss();
      const simulation = await Simulation.start(t);
      const startedAtMs = performance.now();
      simulation.send({
        agentCount: AGENTS,
        serverPort: server.agentPort,
        ca: createTestPki().agentCa.cert,
      });
      await simulation.connected(AGENTS, ALL_BACK_MS);
      const tookMs = performance.now() - startedAtMs;
      const reviews = api.reviewCount;
      const figures = {
        tookSeconds: Math.round(tookMs / 100) / 10,
        reviews,
        rssGrowthMib: Math.round((process.memoryUsage.rss() - rssBefore) / 2 ** 20),
        refusals: simulation.report.refusals,
      };
      t.diagnostic(JSON.stringify(figures));
      assert.ok(tookMs < ALL_BACK_MS, JSON.stringify(figures));
      // One each; what was throttled is asked again.
      assert.ok(reviews < AGENTS * 1.1, JSON.stringify(figures));
    },
  );
});
