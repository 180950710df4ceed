import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";
import type { Cluster } from "../../demo/src/cluster/cluster.ts";
import { startCommand } from "../../demo/src/kubelet/command-process.ts";
import { startCluster } from "../support/cluster.ts";
import { FRONTENDS, startApiservers, startDemoKubelet } from "../support/demo-cluster.ts";
import { freePorts } from "../support/free-ports.ts";
import { OutputText, SPDY_ONLY, kubectlMissing } from "../support/kubectl.ts";
import type { Kubectl } from "../support/kubectl.ts";

test("the real kubectl in a real terminal", { skip: kubectlMissing }, async (t) => {
  const [kubeletPort = 0] = await freePorts(t, 1);
  const place = { node: "node-a", ip: "127.0.0.1", ports: [] };
  const cluster: Cluster = {
    nodes: [{ name: "node-a", address: "127.0.0.1", kubeletPort }],
    pods: FRONTENDS.map((_, index) => ({
      ...place,
      name: `shell-${index}`,
      container: { command: ["sh"], stdin: true, tty: true },
    })),
    services: [],
  };
  const server = await startCluster(t);
  await startDemoKubelet(t, cluster, "node-a");
  const { kubectl } = await startApiservers(t, cluster, server);

  for (const [index, frontend] of FRONTENDS.entries()) {
    const pod = `shell-${index}`;
    for (const [protocol, env] of [
      ["WebSocket", {}],
      ["SPDY/3.1", SPDY_ONLY],
    ] as const) {
      await t.test(`through ${frontend}, ${protocol}: exec -it`, async (t) => {
        // A command that says its terminal's size all the time, until it is interrupted.
        const script = "trap 'echo caught; exit 5' INT; while :; do stty size; sleep 0.02; done";
        const terminal = startInTerminal(t, kubectl[frontend], env, [
          ...["exec", "--stdin", "--tty", pod, "--", "sh", "-c", script],
        ]);
        await terminal.output.match(/^25 91\r$/m);
        terminal.resize(132, 43);
        await terminal.output.match(/^43 132\r$/m);
        terminal.type("\x03");
        assert.equal(await terminal.exitCode, 5);
        assert.match(terminal.output.text, /caught\r\n.*exit code 5/);
      });
    }

    await t.test(`through ${frontend}: attach -it`, async (t) => {
      const args = ["attach", "--stdin", "--tty", pod];
      const terminal = startInTerminal(t, kubectl[frontend], {}, args);
      // Not before the container has the size of this terminal.
      await terminal.output.match(/try pressing enter/);
      terminal.type("while [ \"$(stty size)\" != '25 91' ]; do :; done; echo $((6 * 7))\r");
      await terminal.output.match(/^42\r$/m);
      terminal.type("exit\r");
      assert.equal(await terminal.exitCode, 0);
    });
  }
});

/** Start kubectl with a terminal of 25 lines and 91 columns. */
function startInTerminal(
  t: TestContext,
  kubectl: Kubectl,
  env: Readonly<Record<string, string>>,
  args: readonly string[],
) {
  const variables = Object.entries({ ...kubectl.env, ...env });
  const settings = variables.map(([name, value]) => `${name}=${value}`);
  const command = ["env", ...settings, "kubectl", ...args];
  const terminal = startCommand(command, { tty: true, hostname: "test" });
  terminal.resize(91, 25);
  t.after(() => {
    terminal.kill();
    return terminal.exited;
  });
  return {
    output: new OutputText(terminal.stdout),
    exitCode: terminal.exited,
    type: (text: string) => {
      terminal.stdin.write(text);
    },
    resize: (columns: number, rows: number) => {
      terminal.resize(columns, rows);
    },
  };
}
