import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import type { AgentOptions } from "@reachback/agent";
import { parseLabelSelector } from "@reachback/common";
import { RecordingLogger } from "@reachback/common/testing";
import { WORKERS, startServer, statusOf, until } from "../support/cluster.ts";
import { KubernetesApi, startKubernetesApi, writeKubeconfig } from "../support/kubernetes-api.ts";
import { startTrackedAgent } from "../support/tracked-agent.ts";
import { checkForLeaksAtEnd } from "../support/tracked-clock.ts";

checkForLeaksAtEnd();

const LEASE = { namespace: "kube-system", labels: { "k8s-app": "konnectivity-server" } };

function counting(t: TestContext, api: KubernetesApi, rule: "leases" | "max" = "leases") {
  const serverLeases: AgentOptions["serverLeases"] = {
    namespace: "kube-system",
    selector: parseLabelSelector("k8s-app=konnectivity-server"),
    rule,
    kubeconfigPath: writeKubeconfig(t, api),
  };
  return { serverLeases };
}

describe("a start that needs an apiserver", () => {
  it("fails with the reason if nothing says where it is", async (t) => {
    const api = new KubernetesApi();
    const broken = writeKubeconfig(t, api, {}, { server: "localhost" });
    const starts: readonly (readonly [() => Promise<unknown>, RegExp])[] = [
      [
        () => startServer(t, { lease: LEASE }),
        /^failed to load kubernetes client config: invalid configuration: no configuration has been provided: set --kubeconfig/,
      ],
      [
        () => startServer(t, { lease: LEASE, kubeconfigPath: broken }),
        /^failed to load kubernetes client config: kubeconfig .*: the cluster's server "localhost" is not an http or https URL$/,
      ],
      [
        () => {
          const serverLeases = { ...counting(t, api).serverLeases, kubeconfigPath: "" };
          return startTrackedAgent(t, 1, { serverLeases });
        },
        /^failed to run proxy connection with failed to load in cluster kubernetes client config: unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined$/,
      ],
    ];
    for (const [start, message] of starts) await assert.rejects(start, { message });
  });
});

describe("leases", () => {
  it("are published by servers, counted by agents, and removed when a server stops", async (t) => {
    const api = await startKubernetesApi(t);
    const kubeconfigPath = writeKubeconfig(t, api);
    const servers = await Promise.all(
      ["one", "two"].map((serverId) => startServer(t, { serverId, lease: LEASE, kubeconfigPath })),
    );
    await until(() => api.leases.names().length === 2 * WORKERS);
    // One for each worker, by its id.
    const names = WORKERS === 1 ? ["one"] : ["one-1", "one-2", "one-3", "one-4"];
    const lease = api.leases.get(`konnectivity-proxy-server-${names[0]}`);
    assert.deepEqual(lease?.metadata.labels, LEASE.labels);
    assert.equal(lease.spec["holderIdentity"], names[0]);
    assert.equal(lease.spec["leaseDurationSeconds"], 30);
    assert.match(String(lease.spec["renewTime"]), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);

    const { agent, metric } = await startTrackedAgent(t, servers[0]!.agentPort, counting(t, api));
    await until(() => agent.isReady);
    await until(async () => (await metric("known_server_count")) === `${2 * WORKERS}`);
    await servers[1]!.server.stop();
    assert.deepEqual(
      api.leases.names().sort(),
      names.map((name) => `konnectivity-proxy-server-${name}`),
    );
    await until(async () => (await metric("known_server_count")) === `${WORKERS}`);
  });

  it("rule over what servers say, unless the larger number does", async (t) => {
    const api = await startKubernetesApi(t);
    api.leases.put("a");
    api.leases.put("b");
    api.leases.put("ended", { renewTime: new Date(Date.now() - 60_000).toISOString() });
    api.leases.put("no-duration", { leaseDurationSeconds: undefined });
    api.leases.put("other", {}, { "k8s-app": "other" });
    const server = await startServer(t, { serverCount: 3 });
    const byLeases = await startTrackedAgent(t, server.agentPort, counting(t, api));
    const larger = await startTrackedAgent(t, server.agentPort, counting(t, api, "max"));
    await until(() => byLeases.agent.isReady && larger.agent.isReady);
    await until(async () => (await byLeases.metric("known_server_count")) === "2");
    await until(async () => (await larger.metric("known_server_count")) === `${3 * WORKERS}`);
    assert.equal(
      await byLeases.metric('lease_lists_total{http_response_code="200",reason=""}'),
      "1",
    );
    await until(async () => {
      return (
        (await byLeases.metric('lease_watches_total{http_response_code="200",reason=""}')) === "1"
      );
    });
  });

  it("cannot be read: the agent is alive from the start, believes servers, and counts later", async (t) => {
    const api = new KubernetesApi();
    await api.start();
    api.stop();
    t.after(() => {
      api.stop();
    });
    const logger = new RecordingLogger();
    const server = await startServer(t, {}, { logger });
    const { agent, metric, count } = await startTrackedAgent(t, server.agentPort, counting(t, api));
    assert.equal(await statusOf(agent.ports.health, "/healthz"), 200);
    await until(() => agent.isReady && count("lease.failed") > 0);
    assert.equal(await metric("known_server_count"), `${WORKERS}`);
    api.leases.put("a");
    api.leases.put("b");
    await api.start();
    await until(async () => (await metric("known_server_count")) === "2");
  });
});
