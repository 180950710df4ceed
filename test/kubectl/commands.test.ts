import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import type { TestContext } from "node:test";
import type { Cluster } from "../../demo/src/cluster/cluster.ts";
import { createPod } from "../../demo/src/pod/pod.ts";
import { startCluster, until } from "../support/cluster.ts";
import { FRONTENDS, startApiservers, startDemoKubelet } from "../support/demo-cluster.ts";
import { freePorts } from "../support/free-ports.ts";
import { SPDY_ONLY, kubectlMissing } from "../support/kubectl.ts";
import type { Kubectl } from "../support/kubectl.ts";

const MEBIBYTE = 1024 * 1024;

const ECHO = 'while read -r line; do echo "heard $line"; echo "oops $line" >&2; done; echo "bye"';

test("the real kubectl", { skip: kubectlMissing, concurrency: 2 }, async (t) => {
  const cluster = await startWorkload(t);
  const server = await startCluster(t);
  await startDemoKubelet(t, cluster, "node-a");
  const { kubectl } = await startApiservers(t, cluster, server);

  await Promise.all(
    FRONTENDS.map((frontend, index) =>
      t.test(`through ${frontend}`, { concurrency: 2 }, async (t) => {
        await Promise.all([
          t.test("shows what there is", () => shows(kubectl[frontend])),
          t.test("is refused with another token", () => isRefused(kubectl[frontend])),
          t.test("reads logs", () => readsLogs(kubectl[frontend])),
          t.test("follows logs, and attaches", () => attaches(kubectl[frontend], `echo-${index}`)),
          t.test("runs commands over WebSocket", () => runs(kubectl[frontend], {})),
          t.test("runs commands over SPDY/3.1", () => runs(kubectl[frontend], SPDY_ONLY)),
          t.test("reaches what nodes, pods and services serve", () => proxies(kubectl[frontend])),
        ]);
      }),
    ),
  );
});

async function startWorkload(t: TestContext): Promise<Cluster> {
  const [kubeletPort = 0, podPort = 0] = await freePorts(t, 2);
  const pod = createPod("web", () => undefined);
  pod.listen(podPort, "127.0.0.1");
  t.after(() => {
    pod.close();
    pod.closeAllConnections();
  });
  const place = { node: "node-a", ip: "127.0.0.1", ports: [podPort] };
  const echo = { command: ["sh", "-c", ECHO], stdin: true };
  return {
    nodes: [{ name: "node-a", address: "127.0.0.1", kubeletPort }],
    pods: [
      {
        ...place,
        name: "web",
        labels: { app: "web" },
        container: { command: ["sh", "-c", "for i in 1 2 3 4; do echo line $i; done; sleep 600"] },
      },
      { ...place, name: "echo-0", container: echo },
      { ...place, name: "echo-1", container: echo },
    ],
    services: [{ name: "web", selector: { app: "web" }, port: 80, targetPort: podPort }],
  };
}

async function shows(kubectl: Kubectl): Promise<void> {
  const { stdout } = await kubectl.run(["get", "pods,nodes,services"]);
  assert.match(stdout, /^pod\/web +Running +127\.0\.0\.1 +node-a$/m);
  assert.match(stdout, /^node\/node-a +Ready +v1\.32\.0 +127\.0\.0\.1$/m);
  assert.match(stdout, /^service\/web +80 +{"app":"web"}$/m);
  const selected = await kubectl.run(["get", "pods", "--selector=app=web", "--output=name"]);
  assert.equal(selected.stdout, "pod/web\n");
  const { code, stderr } = await kubectl.run(["get", "pod", "nobody"]);
  assert.equal(code, 1);
  assert.match(stderr, /pods "nobody" not found/);
}

async function isRefused(kubectl: Kubectl): Promise<void> {
  const { code, stderr } = await kubectl.run(["--token=wrong", "logs", "web"]);
  assert.equal(code, 1);
  assert.match(stderr, /Unauthorized|must be logged in/);
}

async function readsLogs(kubectl: Kubectl): Promise<void> {
  const all = await kubectl.run(["logs", "web"]);
  assert.equal(all.stdout, "line 1\nline 2\nline 3\nline 4\n");
  const last = await kubectl.run(["logs", "web", "--tail=1", "--timestamps"]);
  assert.match(last.stdout, /^\d{4}-\d\d-\d\dT\S+Z line 4\n$/);
}

async function attaches(kubectl: Kubectl, pod: string): Promise<void> {
  const logs = kubectl.start(["logs", "--follow", pod]);
  const attached = kubectl.start(["attach", "--stdin", pod]);
  attached.stdin.write("one\n");
  await logs.printed(/heard one\n/);
  await attached.printed(/heard one\n/);
  attached.stdin.write("two\n");
  await logs.printed(/heard one\n(.*\n)*heard two\n/);
  await attached.printed(/heard one\nheard two\n/);
  await attached.complained(/oops one\noops two\n/);
  attached.kill();

  // What is written while nobody is attached is in the log all the same.
  const again = kubectl.start(["attach", "--stdin", pod], SPDY_ONLY);
  again.stdin.write("three\n");
  await logs.printed(/heard three\n/);
  await again.printed(/^heard three\n/);
  logs.kill();
  again.kill();
}

async function runs(kubectl: Kubectl, env: Readonly<Record<string, string>>): Promise<void> {
  const script = "echo out; echo err >&2; exit 42";
  const failed = await kubectl.run(["exec", "web", "--", "sh", "-c", script], { env });
  assert.equal(failed.code, 42);
  assert.equal(failed.stdout, "out\n");
  assert.match(failed.stderr, /^err\n.*exit code 42\n$/);

  // It ends when its input does, and gets every byte of it.
  const input = randomBytes(3 * MEBIBYTE);
  const hashed = await kubectl.run(["exec", "--stdin", "web", "--", "sha256sum"], { env, input });
  assert.equal(hashed.stdout, `${sha256(input)}  -\n`);
  assert.equal(hashed.code, 0, hashed.stderr);

  const much = await kubectl.run(["exec", "web", "--", "sh", "-c", "seq 300000"], { env });
  const numbers = Array.from({ length: 300_000 }, (_, index) => `${index + 1}\n`).join("");
  assert.equal(much.stdout.length, numbers.length);
  assert.equal(sha256(much.stdout), sha256(numbers));

  const missing = await kubectl.run(["exec", "web", "--", "no-such-command"], { env });
  assert.equal(missing.code, 127);

  // Its command does not outlive a kubectl that is gone.
  const gone = kubectl.start(["exec", "web", "--", "sh", "-c", "echo $$; exec sleep 600"], env);
  const [, pid] = await gone.printed(/^(\d+)\n/);
  gone.kill();
  await until(() => !isAlive(Number(pid)));
}

async function proxies(kubectl: Kubectl): Promise<void> {
  const get = async (path: string) => (await kubectl.run(["get", "--raw", path])).stdout;
  assert.equal(await get("/api/v1/nodes/node-a/proxy/healthz"), "ok");
  const pods = JSON.parse(await get("/api/v1/nodes/node-a/proxy/pods")) as { items: unknown[] };
  assert.equal(pods.items.length, 3);
  const namespace = "/api/v1/namespaces/default";
  const greeting = "hello from web: GET /path?with=query\n";
  assert.equal(await get(`${namespace}/pods/web/proxy/path?with=query`), greeting);
  assert.equal(await get(`${namespace}/services/web/proxy/path?with=query`), greeting);
  assert.equal(await get(`${namespace}/services/http:web:80/proxy/path?with=query`), greeting);
}

function sha256(bytes: Buffer | string): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
