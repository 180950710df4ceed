import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import type { AgentOptions } from "@reachback/agent";
import { RecordingLogger } from "@reachback/common/testing";
import type { ServerOptions } from "@reachback/server";
import {
  ONLY_ALONE,
  WORKERS,
  clientsOf,
  startEndpoint,
  startServer,
  temporaryFolder,
  until,
} from "../support/cluster.ts";
import type { TestServer } from "../support/cluster.ts";
import {
  AGENT_AUDIENCE,
  AGENT_USERNAME,
  TOKEN_AUTHENTICATION,
  serviceAccountStatus,
  startKubernetesApi,
  writeKubeconfig,
} from "../support/kubernetes-api.ts";
import type { KubernetesApi } from "../support/kubernetes-api.ts";
import { createTestPki } from "../support/pki.ts";
import { startTrackedAgent } from "../support/tracked-agent.ts";
import type { TrackedAgent } from "../support/tracked-agent.ts";
import { checkForLeaksAtEnd } from "../support/tracked-clock.ts";

checkForLeaksAtEnd();

const NO_CERTIFICATE: Partial<AgentOptions> = { agentCertPath: "", agentKeyPath: "" };

type TokenOptions = NonNullable<ServerOptions["tokenAuthentication"]>;

interface Setup extends TestServer {
  readonly api: KubernetesApi;
  readonly logger: RecordingLogger;
  readonly startAgent: (token: string, options?: Partial<AgentOptions>) => Promise<TrackedAgent>;
  readonly metric: (sample: string) => Promise<string | undefined>;
}

/** A server that has tokens reviewed and asks for no certificate, and an API that knows `good`. */
async function setUp(
  t: TestContext,
  tokenOptions: Partial<TokenOptions> = {},
  serverOptions: Partial<ServerOptions> = {},
): Promise<Setup> {
  const api = await startKubernetesApi(t);
  api.review = (token) =>
    token.startsWith("good")
      ? serviceAccountStatus(AGENT_USERNAME, [AGENT_AUDIENCE])
      : { authenticated: false };
  const logger = new RecordingLogger();
  const server = await startServer(
    t,
    {
      clusterCaCertPath: "",
      kubeconfigPath: writeKubeconfig(t, api),
      tokenAuthentication: {
        ...TOKEN_AUTHENTICATION,
        ...tokenOptions,
      },
      ...serverOptions,
    },
    { logger },
  );
  const folder = temporaryFolder(t);
  return {
    ...server,
    api,
    logger,
    startAgent: (token, options = NO_CERTIFICATE) => {
      const tokenPath = join(folder, token);
      writeFileSync(tokenPath, `${token}\n`);
      return startTrackedAgent(t, server.agentPort, {
        serviceAccountTokenPath: tokenPath,
        ...options,
      });
    },
    metric: async (sample) => {
      const response = await fetch(`http://127.0.0.1:${server.healthPort}/metrics`, {
        headers: { connection: "close" },
      });
      const lines = (await response.text()).split("\n");
      return lines.find((line) => line.startsWith(`${sample} `))?.slice(sample.length + 1);
    },
  };
}

const INVALID = "answer: Unknown: Failed to validate authentication token, err:";

describe("a server that has agents' tokens reviewed", () => {
  it("takes an agent with a good token and no certificate, and carries its bytes", async (t) => {
    const { startAgent, api, logger, metric, ...server } = await setUp(t);
    const { agent } = await startAgent("good");
    await until(() => agent.isReady);
    const endpoint = await startEndpoint(t, (socket) => socket.end("hello"));
    const clients = clientsOf(server);
    const connection = await clients.grpcUnix.dial(endpoint);
    let text = "";
    for await (const piece of connection) text += String(piece);
    assert.equal(text, "hello");
    const { body, headers } = api.calls.at(-1)!;
    assert.deepEqual(body, {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenReview",
      spec: { token: "good", audiences: [AGENT_AUDIENCE] },
    });
    assert.equal(headers["content-type"], "application/json");
    const opened = logger.lines.find(({ event }) => event === "tunnel.opened");
    assert.equal(opened?.fields["user"], AGENT_USERNAME);
    // One by each worker that has been asked.
    const reviews = Number(
      await metric('reachback_server_token_reviews_total{outcome="accepted"}'),
    );
    assert.ok(reviews >= 1 && reviews <= WORKERS, `${reviews} reviews`);
    assert.equal(await metric("reachback_server_token_review_waiting"), "0");
  });

  it(
    "turns away an agent with another token, or none, in upstream's words",
    ONLY_ALONE,
    async (t) => {
      const { startAgent, agentPort, api, metric } = await setUp(t);
      const { refusals } = await startAgent("bad");
      const { refusals: tokenless } = await startTrackedAgent(t, agentPort, NO_CERTIFICATE);
      await until(() => refusals().length >= 3 && tokenless().length >= 1);
      assert.equal(refusals()[0], `${INVALID}lookup failed: service account jwt not valid`);
      assert.equal(
        tokenless()[0],
        "answer: Unknown: Authentication context was not found in metadata",
      );
      assert.equal(api.reviewCount, 1, "a refusal is remembered for a moment");
      const remembered = Number(
        await metric('reachback_server_token_verdicts_remembered_total{outcome="rejected"}'),
      );
      assert.ok(remembered >= 2);
    },
  );

  it("refuses a token whose review does not name our audience", async (t) => {
    const { startAgent, api } = await setUp(t);
    api.review = () => serviceAccountStatus(AGENT_USERNAME);
    const { refusals } = await startAgent("good");
    await until(() => refusals().length > 0);
    const reason = `lookup failed: token is for audiences []. Expected "${AGENT_AUDIENCE}"`;
    assert.equal(refusals()[0], INVALID + reason);
  });

  it("with a client CA asks for certificate and token both", async (t) => {
    const { agentCa } = createTestPki();
    const { startAgent, agentPort } = await setUp(t, {}, { clusterCaCertPath: agentCa.certPath });
    const both = await startAgent("good", {});
    await until(() => both.agent.isReady);
    const tokenOnly = await startAgent("good-2");
    const certificateOnly = await startTrackedAgent(t, agentPort);
    await until(() => tokenOnly.refusals().length > 0 && certificateOnly.refusals().length > 0);
    assert.match(
      tokenOnly.refusals()[0]!,
      /certificate required|wants a certificate|may not accept our certificate/,
    );
    assert.match(certificateOnly.refusals()[0]!, /Authentication context was not found/);
  });

  it(
    "reviews a token once for agents that come at the same time and soon after",
    ONLY_ALONE,
    async (t) => {
      const { startAgent, api } = await setUp(t);
      api.lagMs = 50;
      const agents = await Promise.all(
        ["a", "b", "c", "d"].map((agentId) => startAgent("good", { ...NO_CERTIFICATE, agentId })),
      );
      await until(() => agents.every(({ agent }) => agent.isReady));
      const late = await startAgent("good", { ...NO_CERTIFICATE, agentId: "late" });
      await until(() => late.agent.isReady);
      assert.equal(api.reviewCount, 1);
    },
  );

  it("keeps agents waiting while the apiserver is not there, and lets them in when it comes", async (t) => {
    const { startAgent, api, logger } = await setUp(t);
    api.stop();
    const { agent, refusals } = await startAgent("good");
    await until(() => logger.lines.some(({ event }) => event === "token.unreviewed"));
    const [line] = logger.lines.filter(({ event }) => event === "token.unreviewed");
    assert.match(String(line?.fields["error"]), /POST https:.*tokenreviews: connection refused/);
    await api.start();
    const backAtMs = performance.now();
    await until(() => agent.isReady);
    assert.ok(performance.now() - backAtMs < 2_000);
    assert.deepEqual(refusals(), []);
    assert.ok(logger.lines.some(({ event }) => event === "token.reviewing"));
  });

  it(
    "tells an agent that has waited long enough why, and one too many at once",
    ONLY_ALONE,
    async (t) => {
      const { startAgent, api, metric } = await setUp(t, { timeoutMs: 200, maxWaiting: 1 });
      api.fault = () => ({ status: 503 });
      const first = await startAgent("good-1");
      await until(async () => (await metric("reachback_server_token_review_waiting")) === "1");
      const second = await startAgent("good-2", { ...NO_CERTIFICATE, agentId: "agent-2" });
      await until(() => first.refusals().length > 0 && second.refusals().length > 0);
      const prefix = INVALID.replace("Unknown", "Unavailable");
      const why = [...first.refusals(), ...second.refusals()].join("\n");
      assert.ok(
        why.includes(
          `${prefix}Failed to authenticate request. err: no answer to the TokenReview within 0.2 s: POST ${api.url}`,
        ),
        why,
      );
      assert.ok(why.includes("err: 1 agents wait for reviews already, try again later"), why);
    },
  );

  it("tells an agent at once when the apiserver forbids reviews, and the operator what to do", async (t) => {
    const { startAgent, api, logger } = await setUp(t);
    api.fault = () => ({ status: 403 });
    const { refusals } = await startAgent("good");
    await until(() => refusals().length > 0);
    assert.match(refusals()[0]!, /err:Failed to authenticate request\. err: POST .*403 Forbidden/);
    const line = logger.lines.find(({ event }) => event === "token.unreviewed");
    assert.match(String(line?.fields["hint"]), /system:auth-delegator/);
  });

  it("waits as long as an apiserver that throttles asks for", async (t) => {
    const { startAgent, api } = await setUp(t);
    let isBusy = true;
    api.fault = () => (isBusy ? { status: 429, headers: { "retry-after": "1" } } : undefined);
    const { agent, refusals } = await startAgent("good");
    await until(() => api.reviewCount === 1);
    const askedAtMs = performance.now();
    isBusy = false;
    await until(() => agent.isReady);
    assert.ok(performance.now() - askedAtMs > 800);
    assert.equal(api.reviewCount, 2);
    assert.deepEqual(refusals(), []);
  });

  it("forgets an agent that leaves while it waits, and turns away the others when it stops", async (t) => {
    const { startAgent, api, metric, server } = await setUp(t);
    api.fault = () => "hang";
    const leaving = await startAgent("good-1");
    const staying = await startAgent("good-2", { ...NO_CERTIFICATE, agentId: "agent-2" });
    await until(async () => (await metric("reachback_server_token_review_waiting")) === "2");
    await leaving.agent.stop();
    await until(async () => (await metric("reachback_server_token_review_waiting")) === "1");
    await server.stop();
    await until(() => staying.refusals().length > 0);
    assert.equal(staying.refusals()[0], "answer: Unavailable: the server is stopping");
  });
});
