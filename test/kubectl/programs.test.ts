import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { statusOf, temporaryFolder, until } from "../support/cluster.ts";
import { freePorts } from "../support/free-ports.ts";
import { Kubectl, OutputText, kubectlMissing } from "../support/kubectl.ts";

// What a reader of demo/README.md types: the executables, in folders and with flags as it says.

const SERVER = "packages/server/bin/reachback-server.js";
const AGENT = "packages/agent/bin/reachback-agent.js";
const CLI = "packages/cli/bin/reachback.js";

test("the demo's programs, by hand", { skip: kubectlMissing }, async (t) => {
  const folder = temporaryFolder(t);
  const ports = await freePorts(t, 12);
  const port = () => ports.pop() ?? 0;
  const [kubeletPort, podPort, apiPort, agentPort, health] = [
    port(),
    port(),
    port(),
    port(),
    port(),
  ];
  const [apiHealth, kubeletHealth, serverHealth] = [port(), port(), port()];
  const cluster = {
    nodes: [{ name: "node-a", address: "localhost", kubeletPort }],
    pods: [
      { name: "web-a", labels: { app: "web" }, node: "node-a", ip: "127.0.0.1", ports: [podPort] },
    ],
    services: [{ name: "web", selector: { app: "web" }, port: 80, targetPort: podPort }],
  };
  writeFileSync(join(folder, "cluster.json"), JSON.stringify(cluster));
  for (const args of [[], ["frontend-server", "--name=apiserver"]]) {
    const { status, stderr } = spawnSync(process.execPath, [pathOf(CLI), "certs", ...args], {
      cwd: folder,
    });
    assert.equal(status, 0, String(stderr));
  }

  const start = (script: string, args: readonly string[], env = {}) =>
    startProgram(t, folder, script, args, env);
  start(SERVER, [
    `--uds-name=${join(folder, "server.sock")}`,
    "--server-port=0",
    ...["--cluster-cert=certs/agent/server.crt", "--cluster-key=certs/agent/server.key"],
    ...["--cluster-ca-cert=certs/agent/ca.crt", "--agent-bind-address=127.0.0.1"],
    ...[`--agent-port=${agentPort}`, `--health-port=${serverHealth}`, `--admin-port=${port()}`],
  ]);
  start(AGENT, [
    ...["--proxy-server-host=127.0.0.1", `--proxy-server-port=${agentPort}`],
    ...["--ca-cert=certs/agent/ca.crt", "--agent-cert=certs/agent/client.crt"],
    ...["--agent-key=certs/agent/client.key", "--sync-interval=50ms"],
    ...[`--health-server-port=${health}`, `--admin-server-port=${port()}`],
  ]);
  const demo = [
    start("demo/bin/kubelet.js", ["--cluster=cluster.json", `--health-port=${kubeletHealth}`], {
      DEMO_NODE: "node-a",
    }),
    start("demo/bin/pod.js", ["--name=web-a"], { DEMO_PORT: String(podPort) }),
    start("demo/bin/apiserver.js", [
      ...["--cluster=cluster.json", "--kubeconfig=kubeconfig", `--port=${apiPort}`],
      `--frontend=grpc,unix:${join(folder, "server.sock")}`,
      `--health-port=${apiHealth}`,
    ]),
  ];
  for (const [healthPort, path] of [
    [health, "/readyz"],
    [apiHealth, "/healthz"],
    [kubeletHealth, "/healthz"],
    [podPort, "/healthz"],
  ] as const) {
    await until(async () => (await statusOf(healthPort, path).catch(() => 0)) === 200);
  }

  const kubectl = new Kubectl(t, folder, join(folder, "kubeconfig"));
  const logs = kubectl.start(["logs", "--follow", "web-a"]);
  await logs.printed(/^web-a: line 1\n/);
  const hello = await kubectl.run(["get", "--raw", "/api/v1/namespaces/default/pods/web-a/proxy/"]);
  assert.equal(hello.stdout, "hello from web-a: GET /\n", hello.stderr);

  await t.test("are walked through, and what has no isolation is told", async () => {
    const args = ["--cluster=cluster.json", "--kubeconfig=kubeconfig"];
    const { stdout, exited } = start("demo/bin/walkthrough.js", args);
    assert.deepEqual(await exited, [1, null]);
    assert.equal(stdout.text.match(/^ok /gm)?.length, 6, stdout.text);
    assert.match(stdout.text, /^FAIL {2}node-a's kubelet, without .* can be reached directly$/m);
  });

  for (const program of demo) {
    program.child.kill("SIGTERM");
    assert.deepEqual(await program.exited, [0, null]);
    assert.match(program.stdout.text, /"event":"program.started".*\n(.*\n)*.*"program.stopped"/);
  }

  await t.test("say what is wrong with their flags", () => {
    for (const [script, args, problem] of [
      ["apiserver", ["--frontend=socks,127.0.0.1:1"], /must begin with "grpc," or "http-connect,"/],
      ["apiserver", ["--cluster=none.json"], /cluster file none\.json: ENOENT/],
      ["kubelet", ["--cluster=cluster.json", "--node=z"], /the cluster has no node "z"/],
      ["pod", ["--port=http"], /invalid argument "http" for "--port" flag/],
    ] as const) {
      const options = { cwd: folder, encoding: "utf8" } as const;
      const argv = [pathOf(`demo/bin/${script}.js`), ...args];
      const { status, stderr } = spawnSync(process.execPath, argv, options);
      assert.equal(status, 1);
      assert.match(stderr, problem);
    }
  });
});

function startProgram(
  t: TestContext,
  cwd: string,
  script: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
) {
  const child = spawn(process.execPath, [pathOf(script), ...args], {
    cwd,
    env: { PATH: process.env["PATH"], ...env },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const stdout = new OutputText(child.stdout);
  const exited = once(child, "close") as Promise<[number | null, string | null]>;
  t.after(() => {
    child.kill("SIGKILL");
    return exited;
  });
  return { child, stdout, exited };
}

function pathOf(script: string): string {
  return fileURLToPath(new URL(`../../${script}`, import.meta.url));
}
