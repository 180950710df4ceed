import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startAgent, startServer, temporaryFolder, until } from "../support/cluster.ts";
import {
  AGENT_AUDIENCE,
  AGENT_USERNAME,
  TOKEN_AUTHENTICATION,
  serviceAccountStatus,
  startKubernetesApi,
  writeKubeconfig,
} from "../support/kubernetes-api.ts";
import { WORKERS } from "../support/workers-server.ts";

describe("a server with four workers that has agents' tokens reviewed", () => {
  it("has each reviewed by one worker for all", async (t) => {
    const api = await startKubernetesApi(t);
    api.review = () => serviceAccountStatus(AGENT_USERNAME, [AGENT_AUDIENCE]);
    const server = await startServer(t, {
      workers: WORKERS,
      clusterCaCertPath: "",
      kubeconfigPath: writeKubeconfig(t, api),
      tokenAuthentication: TOKEN_AUTHENTICATION,
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
