import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";
import { ApiClient } from "../../demo/src/walkthrough/api-client.ts";
import { temporaryFolder, until } from "../support/cluster.ts";
import { ComposeProject, composeMissing, docker } from "../support/compose.ts";
import { freePorts } from "../support/free-ports.ts";
import { httpBody } from "../support/http-body.ts";
import { Kubectl, kubectlMissing } from "../support/kubectl.ts";
import { manifestsMissing, startManifests } from "./kubernetes-manifests.ts";

const LASTING = [
  ...["server", "agent-a", "agent-b", "apiserver"],
  ...["kubelet-a", "kubelet-b", "pod-a", "pod-b"],
];
const PRODUCTS = ["reachback", "reachback-server", "reachback-agent"];

/** "Within seconds". */
const NOTICED_MS = 5_000;

test("docker-compose.yml", { skip: composeMissing }, async (t) => {
  const folder = temporaryFolder(t);
  const [port = 0] = await freePorts(t, 1);
  const project = await ComposeProject.up(t, [...PRODUCTS, "reachback-demo"], {
    APISERVER_PORT: String(port),
    KUBECONFIG_FOLDER: folder,
  });
  const walkthrough = await project.container("walkthrough");
  const walkthroughCode = await docker("wait", walkthrough);
  const kubeconfigPath = join(folder, "kubeconfig");

  await t.test("goes through every step of the walkthrough", async () => {
    const table = await docker("logs", walkthrough);
    assert.equal(walkthroughCode, "0", table);
    assert.doesNotMatch(table, /FAIL/);
    const [, section = ""] = readFileSync("README.md", "utf8").split("## Docker Compose\n");
    assert.equal(stepsIn(table).length, 13, table);
    assert.deepEqual(stepsIn(table), stepsIn(section));
  });

  await t.test("keeps the control plane from the nodes", () => isolates(project));

  await t.test("confines its containers", () => confines(project));

  await t.test("has agents that need little memory at rest", async () => {
    for (const service of ["agent-a", "agent-b"]) await isSmall(project, service);
  });

  await t.test("has nothing of the demo in the product's images", async () => {
    for (const image of PRODUCTS) {
      const run = ["run", "--rm", "--network=none", "--entrypoint=sh", image, "-c"];
      await docker(...run, "test -e /opt/reachback/packages && test ! -e /opt/reachback/demo");
    }
  });

  await t.test("gives its owner, and nobody else, a kubeconfig", () => {
    const { mode, uid } = statSync(kubeconfigPath);
    assert.equal(mode & 0o777, 0o600);
    assert.equal(uid, statSync(folder).uid);
  });

  const kubectl = new Kubectl(t, folder, kubeconfigPath);
  await t.test("serves kubectl on this machine", { skip: kubectlMissing }, (t) =>
    servesKubectl(t, kubectl),
  );

  await t.test("shows the loss of an agent, and its return", async (t) => {
    await losesAnAgent(t, project, new ApiClient(kubeconfigPath, ""), kubectl);
  });

  await t.test("can be brought up again as it is", async () => {
    await project.compose("up", "--detach");
    assert.equal(await docker("wait", walkthrough), "0");
    const api = new ApiClient(kubeconfigPath, "");
    assert.equal(await api.get("/api/v1/nodes/node-b/proxy/healthz"), "ok");
  });

  // With the images that are here now.
  await t.test("the Kubernetes manifests run", { skip: manifestsMissing }, startManifests);
});

/** The steps of the walkthrough, from its table or from a text that shows it. */
function stepsIn(text: string): string[] {
  const rows = text.matchAll(/^ok {4}(.*?) {2,}\d+ ms {2}(.*)$/gm);
  // What a name server says of a name that it does not know depends on where it asks.
  const withoutReason = (outcome: string) => outcome.replace(/: getaddrinfo .*/, "");
  return Array.from(rows, ([, step = "", outcome = ""]) => `${step}: ${withoutReason(outcome)}`);
}

async function isolates(project: ComposeProject): Promise<void> {
  assert.deepEqual(await project.servicesOn("control-plane", LASTING), ["server", "apiserver"]);
  assert.deepEqual(await project.servicesOn("uplink", LASTING), ["server", "agent-a", "agent-b"]);
  for (const node of ["a", "b"]) {
    const members = await project.servicesOn(`node-${node}`, LASTING);
    assert.deepEqual(members, [`agent-${node}`, `kubelet-${node}`, `pod-${node}`]);
  }

  const open: [string, string, number][] = [];
  const closed: [string, string, number][] = [];
  const frontend = await project.address("server", "control-plane");
  const uplink = await project.address("server", "uplink");
  open.push(["apiserver", frontend, 8090], ["agent-a", uplink, 8091], ["agent-b", uplink, 8091]);
  // Frontend, health, admin, and the way through the server to the control plane.
  for (const port of [8090, 8092, 8095]) closed.push(["agent-a", uplink, port]);
  for (const port of [8090, 8091, 8092]) closed.push(["agent-a", frontend, port]);
  closed.push(["agent-a", await project.address("apiserver", "control-plane"), 6443]);
  // The agents' own health and admin listeners.
  for (const port of [8093, 8094]) {
    closed.push(["agent-b", await project.address("agent-a", "uplink"), port]);
    closed.push(["kubelet-a", await project.address("agent-a", "node-a"), port]);
  }
  for (const node of ["a", "b"]) {
    const network = `node-${node}`;
    const other = node === "a" ? "b" : "a";
    const kubelet = await project.address(`kubelet-${node}`, network);
    const pod = await project.address(`pod-${node}`, network);
    for (const [host, port] of [
      [kubelet, 10250],
      [pod, 8080],
    ] as const) {
      open.push([`agent-${node}`, host, port]);
      for (const service of ["apiserver", "server", `agent-${other}`]) {
        closed.push([service, host, port]);
      }
    }
    closed.push([`kubelet-${node}`, uplink, 8091]);
  }
  const attempt = async (way: [string, string, number], outcome: RegExp) => {
    assert.match(await project.connect(...way), outcome, way.join(" "));
  };
  await Promise.all(open.map((way) => attempt(way, /^connected$/)));
  await Promise.all(closed.map((way) => attempt(way, /^(silent|E[A-Z]+)$/)));
}

async function confines(project: ComposeProject): Promise<void> {
  for (const service of [...LASTING, "certs", "walkthrough", "kubeconfig"]) {
    const { Config, HostConfig } = await project.inspect(service);
    assert.equal(HostConfig.ReadonlyRootfs, true, service);
    assert.deepEqual(HostConfig.CapDrop, ["ALL"], service);
    assert.ok(HostConfig.Memory > 0 && HostConfig.PidsLimit > 0, service);
    assert.equal(Config.User, service === "kubeconfig" ? "0:0" : "65532:65532", service);
  }
}

/** As much as the manifests' limit of 96Mi leaves room for: README.md, "In a cluster". */
async function isSmall(project: ComposeProject, service: string): Promise<void> {
  const { HostConfig } = await project.inspect(service);
  assert.equal(HostConfig.Memory, 96 * 1024 * 1024);
  const status = await docker("exec", await project.container(service), "cat", "/proc/1/status");
  const mebibytes = (field: string) => {
    return Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) / 1024;
  };
  assert.ok(mebibytes("RssAnon") <= 40, status);
  assert.ok(mebibytes("VmRSS") <= 96, status);
}

async function servesKubectl(t: TestContext, kubectl: Kubectl): Promise<void> {
  const logs = await kubectl.run(["logs", "--tail=1", "web-b"]);
  assert.match(logs.stdout, /^web-b: line \d+\n$/, logs.stderr);
  const { code, stdout } = await kubectl.run(["exec", "web-a", "--", "sh", "-c", "echo a; exit 7"]);
  assert.deepEqual([code, stdout], [7, "a\n"]);
  const pod = await kubectl.run(["get", "--raw", "/api/v1/namespaces/default/pods/web-b/proxy/x"]);
  assert.equal(pod.stdout, "hello from web-b: GET /x\n", pod.stderr);
  const [port = 0] = await freePorts(t, 1);
  const forward = kubectl.start(["port-forward", "web-a", `${port}:8080`]);
  await forward.printed(/Forwarding from 127\.0\.0\.1/);
  assert.equal(await httpBody(`http://127.0.0.1:${port}/`), "hello from web-a: GET /\n");
  forward.kill();
}

async function losesAnAgent(
  t: TestContext,
  project: ComposeProject,
  api: ApiClient,
  kubectl: Kubectl,
): Promise<void> {
  const health = (node: string) => api.get(`/api/v1/nodes/${node}/proxy/healthz`);
  const comesBack = async () => {
    await project.compose("start", "agent-a");
    await until(async () => (await health("node-a").catch(() => "")) === "ok");
  };

  await t.test("killed in the middle of `logs -f`", { skip: kubectlMissing }, async () => {
    const logs = kubectl.start(["logs", "--follow", "web-a"]);
    await logs.printed(/line 1\n/);
    await project.compose("kill", "agent-a");
    const killedAtMs = performance.now();
    const { code, stderr } = await logs.exited;
    assert.equal(code, 1);
    assert.match(stderr, /unexpected EOF|stream error/);
    assert.ok(performance.now() - killedAtMs < NOTICED_MS);
    await comesBack();
  });

  await t.test("stopped", async () => {
    await project.compose("stop", "agent-a");
    await assert.rejects(health("node-a"), /error dialing backend .*kubelet-a:10250: /);
    assert.equal(await health("node-b"), "ok");
    const { code, stdout } = await project.walkthrough();
    assert.equal(code, 1);
    assert.match(stdout, /^FAIL {2}exec web-a .*error dialing backend/m);
    assert.match(stdout, /^ok {4}exec web-b /m);
    await comesBack();
    assert.equal((await project.walkthrough()).code, 0);
  });
}
