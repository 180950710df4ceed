import assert from "node:assert/strict";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { ApiError, connectKubernetes, systemClock } from "@reachback/common";
import type { Clock, KubernetesClient } from "@reachback/common";
import { ManualClock } from "@reachback/common/testing";
import { temporaryFolder, until } from "../support/cluster.ts";
import { startKubernetesApi, writeKubeconfig } from "../support/kubernetes-api.ts";
import { createTestPki } from "../support/pki.ts";
import { checkForLeaksAtEnd } from "../support/tracked-clock.ts";

checkForLeaksAtEnd();

const LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

interface ClientOptions {
  readonly clock?: Clock;
  readonly env?: Record<string, string | undefined>;
  readonly serviceAccountFolder?: string;
}

async function connect(
  t: TestContext,
  kubeconfig: string,
  { clock = systemClock, env = { PATH: process.env["PATH"] }, ...rest }: ClientOptions = {},
): Promise<KubernetesClient> {
  const client = await connectKubernetes(kubeconfig, { clock, env, userAgent: "test/1", ...rest });
  t.after(() => {
    client.close();
  });
  return client;
}

function list(client: KubernetesClient, timeoutMs = 5_000): Promise<unknown> {
  return client.request({ method: "GET", path: LEASES, timeoutMs });
}

async function failureOf(promise: Promise<unknown>): Promise<ApiError> {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof ApiError, String(error));
    return error;
  }
  return assert.fail("it did not fail");
}

/** A program that prints an ExecCredential, and counts how often it was run. */
function writePlugin(t: TestContext, status: string): { path: string; runs: string } {
  const folder = temporaryFolder(t);
  const path = join(folder, "plugin.sh");
  const runs = join(folder, "runs");
  const apiVersion = "client.authentication.k8s.io/v1";
  writeFileSync(
    path,
    `#!/bin/sh\necho "$EXTRA $KUBERNETES_EXEC_INFO" >> ${runs}\n` +
      `printf '{"apiVersion":"${apiVersion}","kind":"ExecCredential","status":%s}' '${status}'\n`,
  );
  chmodSync(path, 0o755);
  return { path, runs };
}

describe("a kubeconfig", () => {
  it("may have a token, certificates as files or as data, basic authentication and more", async (t) => {
    const { kubeletCa, kubeletClient } = createTestPki();
    const api = await startKubernetesApi(t);
    const data = (text: string) => Buffer.from(text).toString("base64");
    const folder = temporaryFolder(t);
    writeFileSync(join(folder, "token"), "caller-token\n");
    const users: object[] = [
      { token: "caller-token" },
      { tokenFile: join(folder, "token") },
      { "client-certificate": kubeletClient.certPath, "client-key": kubeletClient.keyPath },
      {
        "client-certificate-data": data(kubeletClient.cert),
        "client-key-data": data(kubeletClient.key),
      },
    ];
    for (const user of users) await list(await connect(t, writeKubeconfig(t, api, user)));
    assert.deepEqual(
      api.calls.map(({ commonName }) => commonName),
      [undefined, undefined, "kubelet-client", "kubelet-client"],
    );
    const clusters: object[] = [
      { "certificate-authority-data": data(kubeletCa.cert) },
      { "insecure-skip-tls-verify": true },
      { "certificate-authority": kubeletCa.certPath, "tls-server-name": "localhost" },
      { "certificate-authority": kubeletCa.certPath, server: `${api.url}/` },
    ];
    for (const cluster of clusters) {
      await list(await connect(t, writeKubeconfig(t, api, undefined, cluster)));
    }

    const other = { username: "us", password: "p:w", as: "boss", "as-groups": ["a", "b"] };
    const failure = await failureOf(list(await connect(t, writeKubeconfig(t, api, other))));
    assert.equal(failure.status, 401);
    const { headers } = api.calls.at(-1)!;
    assert.equal(headers.authorization, `Basic ${data("us:p:w")}`);
    assert.equal(headers["impersonate-user"], "boss");
    assert.equal(headers["impersonate-group"], "a, b");
    assert.equal(headers["user-agent"], "test/1");
  });

  it("may have a plugin, which is run once for as long as what it gives lasts", async (t) => {
    const api = await startKubernetesApi(t);
    const clock = new ManualClock(Date.now());
    const until = new Date(clock.wallTimeMs() + 60_000).toISOString();
    const { path, runs } = writePlugin(
      t,
      `{"token":"caller-token","expirationTimestamp":"${until}"}`,
    );
    const exec = {
      apiVersion: "client.authentication.k8s.io/v1",
      command: path,
      env: [{ name: "EXTRA", value: "extra" }],
      provideClusterInfo: true,
      interactiveMode: "Never",
    };
    const client = await connect(t, writeKubeconfig(t, api, { exec }), { clock });
    await list(client);
    clock.advance(40_000);
    await list(client);
    const [line = "", ...more] = readFileSync(runs, "utf8").trim().split("\n");
    assert.deepEqual(more, []);
    assert.ok(line.startsWith("extra {"));
    const info = JSON.parse(line.slice("extra ".length)) as {
      spec: { cluster: { server: string } };
    };
    assert.equal(info.spec.cluster.server, api.url);

    clock.advance(15_000);
    await list(client);
    assert.equal(readFileSync(runs, "utf8").trim().split("\n").length, 2);
  });

  it("whose plugin is missing or fails says so, and the request may be repeated", async (t) => {
    const api = await startKubernetesApi(t);
    const base = { apiVersion: "client.authentication.k8s.io/v1" };
    const cases: readonly (readonly [object, RegExp])[] = [
      [
        { ...base, command: "/nope/plugin", installHint: "get it" },
        /\/nope\/plugin: not found: get it$/,
      ],
      [
        { ...base, command: "sh", args: ["-c", "echo no luck >&2; exit 3"] },
        /sh: failed with 3: no luck$/,
      ],
      [{ ...base, command: "echo", args: ["hi"] }, /echo: it printed no JSON$/],
      [{ ...base, command: "echo", args: ["{}"] }, /echo: it printed no ExecCredential/],
    ];
    for (const [exec, message] of cases) {
      const client = await connect(t, writeKubeconfig(t, api, { exec }));
      const failure = await failureOf(list(client));
      assert.match(failure.message, message);
      assert.ok(failure.isTemporary);
    }
  });
});

describe("the client of an apiserver", () => {
  it("runs in a pod, with its token read again when it is replaced", async (t) => {
    const api = await startKubernetesApi(t);
    const folder = temporaryFolder(t);
    writeFileSync(join(folder, "ca.crt"), createTestPki().kubeletCa.cert);
    writeFileSync(join(folder, "token"), "old-token");
    const env = { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(api.port) };
    const clock = new ManualClock();
    const client = await connect(t, "", { clock, env, serviceAccountFolder: folder });
    api.callers.add("old-token");
    await list(client);

    api.callers.delete("old-token");
    writeFileSync(join(folder, "token"), "caller-token");
    await list(client);
    assert.deepEqual(
      api.calls.map(({ headers }) => headers.authorization),
      ["Bearer old-token", "Bearer old-token", "Bearer caller-token"],
    );
    await assert.rejects(
      connectKubernetes("", { clock, env: {}, userAgent: "test" }),
      /KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined/,
    );
  });

  it("says what the apiserver says, and whether to try again", async (t) => {
    const api = await startKubernetesApi(t);
    const client = await connect(t, writeKubeconfig(t, api));
    for (const [status, isTemporary] of [
      [403, false],
      [404, false],
      [429, true],
      [503, true],
    ] as const) {
      api.fault = () => ({ status, headers: { "retry-after": "2" } });
      const failure = await failureOf(list(client));
      assert.deepEqual(
        [failure.status, failure.isTemporary, failure.retryAfterMs],
        [status, isTemporary, 2000],
      );
      assert.match(
        failure.message,
        new RegExp(`^GET ${api.url}${LEASES}: ${status} \\w+: says the test`),
      );
    }
  });

  it("gives up after its time, on a signal, and on who is not an apiserver of ours", async (t) => {
    const api = await startKubernetesApi(t);
    const clock = new ManualClock();
    const client = await connect(t, writeKubeconfig(t, api), { clock });
    api.fault = () => "hang";
    const answer = failureOf(list(client));
    await until(() => api.calls.length === 1);
    clock.advance(5_000);
    assert.equal((await answer).message, `GET ${api.url}${LEASES}: no answer within 5 s`);

    const stopping = new AbortController();
    const request = client.request({
      method: "GET",
      path: LEASES,
      timeoutMs: 5_000,
      signal: stopping.signal,
    });
    stopping.abort(new Error("enough"));
    await assert.rejects(request, /^Error: enough$/);
    assert.equal(clock.pendingTimers, 0);

    const { agentCa } = createTestPki();
    const cluster = { "certificate-authority": agentCa.certPath };
    const stranger = await connect(t, writeKubeconfig(t, api, undefined, cluster));
    assert.match((await failureOf(list(stranger))).message, /: wrong CA: /);
    api.stop();
    assert.match((await failureOf(list(stranger))).message, /: connection refused$/);
  });

  it("uses a connection again, and another one if that was closed meanwhile", async (t) => {
    const api = await startKubernetesApi(t);
    const client = await connect(t, writeKubeconfig(t, api));
    await list(client);
    await list(client);
    api.stop();
    await api.start();
    await list(client);
    assert.equal(api.calls.length, 3);
  });

  it("hands on a watch line by line, until it ends, breaks off or falls silent", async (t) => {
    const api = await startKubernetesApi(t);
    const clock = new ManualClock();
    const client = await connect(t, writeKubeconfig(t, api), { clock });
    const watch = () => {
      const names: string[] = [];
      const ended = client.watch({
        path: `${LEASES}?watch=1`,
        silenceMs: 60_000,
        signal: new AbortController().signal,
        started: () => names.push("started"),
        event: (event) => {
          names.push((event as { object: { metadata: { name: string } } }).object.metadata.name);
        },
      });
      return { names, ended };
    };
    const orderly = watch();
    await until(() => api.leases.watchCount === 1);
    api.leases.put("a");
    api.leases.put("b");
    await until(() => orderly.names.length === 3);
    assert.deepEqual(orderly.names, ["started", "a", "b"]);
    api.leases.endWatches("end");
    await orderly.ended;

    const broken = watch();
    await until(() => broken.names.length > 0);
    api.leases.endWatches("reset");
    assert.equal((await failureOf(broken.ended)).status, 0);

    const silent = watch();
    await until(() => silent.names.length > 0);
    clock.advance(60_000);
    assert.match((await failureOf(silent.ended)).message, /nothing heard for 60 s$/);
    api.fault = () => ({ status: 403 });
    assert.equal((await failureOf(watch().ended)).status, 403);
    assert.equal(clock.pendingTimers, 0);
  });
});
