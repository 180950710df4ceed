import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startAgent, startServer, temporaryFolder, until } from "../support/cluster.ts";
import {
  serviceAccountStatus,
  startKubernetesApi,
  writeKubeconfig,
} from "../support/kubernetes-api.ts";
import { WORKERS } from "../support/workers-server.ts";

const AUDIENCE = "system:konnectivity-server";
const USERNAME = "system:serviceaccount:kube-system:konnectivity-agent";

describe("a server with four workers that has agents' tokens reviewed", () => {
  it("has each reviewed by one worker for all", async (t) => {
    const api = await startKubernetesApi(t);
    api.review = () => serviceAccountStatus(USERNAME, [AUDIENCE]);
    const server = await startServer(t, {
      workers: WORKERS,
      clusterCaCertPath: "",
      kubeconfigPath: writeKubeconfig(t, api),
      tokenAuthentication: {
        namespace: "kube-system",
        serviceAccount: "konnectivity-agent",
        audience: AUDIENCE,
        maxWaiting: 100,
        timeoutMs: 30_000,
        perSecond: 1_000,
        burst: 1_000,
        cacheTtlMs: 300_000,
      },
    });
    const folder = temporaryFolder(t);
    for (const token of ["one", "two", "three"]) {
      const path = join(folder, token);
      writeFileSync(path, token);
      const agent = await startAgent(t, server.agentPort, {
        agentId: token,
        agentCertPath: "",
        agentKeyPath: "",
        serviceAccountTokenPath: path,
        readyMinServers: "all",
      });
      await until(() => agent.isReady);
    }
    // One may be under way still when its agent comes to the next worker.
    assert.ok(api.reviewCount <= 5, String(api.reviewCount));
  });
});
