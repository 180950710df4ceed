import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import type { Cluster } from "../../demo/src/cluster/cluster.ts";
import { startCluster, startEndpoint } from "../support/cluster.ts";
import { FRONTENDS, startApiservers, startDemoKubelet } from "../support/demo-cluster.ts";
import { freePorts } from "../support/free-ports.ts";
import { SPDY_ONLY, kubectlMissing } from "../support/kubectl.ts";
import type { Kubectl } from "../support/kubectl.ts";

const MEBIBYTE = 1024 * 1024;

const PROTOCOLS = [
  ["in a WebSocket", {}],
  ["over SPDY/3.1", SPDY_ONLY],
] as const;

test("the real kubectl's port-forward", { skip: kubectlMissing }, async (t) => {
  const echo = await startEndpoint(t, (socket) => socket.pipe(socket));
  const podPort = portOf(echo);
  const hangsUp = portOf(await startEndpoint(t, (socket) => socket.end("goodbye")));
  const [kubeletPort = 0, deadPort = 0] = await freePorts(t, 2);
  const cluster: Cluster = {
    nodes: [{ name: "node-a", address: "127.0.0.1", kubeletPort }],
    pods: [{ name: "echo", node: "node-a", ip: "127.0.0.1", ports: [podPort] }],
    services: [],
  };
  const server = await startCluster(t);
  await startDemoKubelet(t, cluster, "node-a");
  const { kubectl } = await startApiservers(t, cluster, server);

  for (const [index, frontend] of FRONTENDS.entries()) {
    for (const [protocolIndex, [protocol, env]] of PROTOCOLS.entries()) {
      // The heavy run once per frontend, with another protocol each.
      const pieceBytes = index === protocolIndex ? MEBIBYTE : MEBIBYTE / 64;
      const title = `through ${frontend}, ${protocol}: 100 connections, ${pieceBytes} bytes each way`;
      await t.test(title, async () => {
        const forwarding = await startForwarding(kubectl[frontend], env, podPort);
        const sent = Array.from({ length: 100 }, () => randomBytes(pieceBytes));
        const received = await Promise.all(sent.map((bytes) => exchange(forwarding.port, bytes)));
        assert.deepEqual(received, sent.map(sha256));
        forwarding.kill();
      });
    }

    await t.test(`through ${frontend}: a pod that hangs up first`, async () => {
      const forwarding = await startForwarding(kubectl[frontend], {}, hangsUp);
      // The second one shows that kubectl took the first one's end for what it was.
      for (const connection of ["first", "second"]) {
        const socket = connect(forwarding.port, "127.0.0.1");
        assert.equal(await text(socket), "goodbye", connection);
      }
      forwarding.kill();
    });

    await t.test(`through ${frontend}: a port on which nobody listens`, async () => {
      const forwarding = await startForwarding(kubectl[frontend], {}, deadPort);
      const socket = connect(forwarding.port, "127.0.0.1");
      socket.on("error", () => undefined);
      socket.resume();
      await once(socket, "close");
      const { code, stderr } = await forwarding.exited;
      assert.equal(code, 1);
      assert.match(stderr, /error forwarding port \d+ to pod at 127\.0\.0\.1: .*ECONNREFUSED/);
    });
  }
});

async function startForwarding(
  kubectl: Kubectl,
  env: Readonly<Record<string, string>>,
  podPort: number,
) {
  const args = ["port-forward", "--address=127.0.0.1", "pod/echo", `:${podPort}`];
  const { printed, kill, exited } = kubectl.start(args, env);
  const [, port] = await printed(/^Forwarding from 127\.0\.0\.1:(\d+) -> /);
  return { port: Number(port), kill, exited };
}

/** Send `bytes` and then an end; the SHA-256 of what came back until the other end. */
async function exchange(port: number, bytes: Buffer): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.end(bytes);
  const hash = createHash("sha256");
  for await (const piece of socket) hash.update(piece as Buffer);
  return hash.digest("hex");
}

function portOf(endpoint: string): number {
  return Number(endpoint.split(":")[1]);
}

function sha256(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}
