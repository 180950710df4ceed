import { lookup } from "node:dns/promises";
import { connect } from "node:net";
import type { Cluster, NodeSpec, PodSpec } from "../cluster/cluster.ts";
import { namespaceOf, podsOfService } from "../cluster/cluster.ts";
import type { ApiClient } from "./api-client.ts";

/** One line of the walkthrough. */
export interface Step {
  /** What `kubectl` would be asked, or what else is tried. */
  readonly what: string;
  /** Resolves with what came of it. @throws {Error} if that is not as it must be. */
  readonly run: () => Promise<string>;
}

/** All that kubectl can do, on every node, and what must not be possible. */
export function stepsFor({ api, cluster }: { api: ApiClient; cluster: Cluster }): Step[] {
  const { nodes, services } = cluster;
  const servingPods = services.flatMap((service) => podsOfService(cluster, service));
  return [
    ...nodes.map((node) => nodeStep(api, node)),
    ...servingPods.flatMap((pod) => podSteps(api, pod)),
    ...services.map((service): Step => {
      const path = `/api/v1/namespaces/${namespaceOf(service)}/services/${service.name}/proxy/`;
      return {
        what: `get --raw .../services/${service.name}/proxy/`,
        run: () => expecting(/^hello from /, api.get(path)),
      };
    }),
    ...nodes.map(directStep),
  ];
}

function nodeStep(api: ApiClient, { name }: NodeSpec): Step {
  return {
    what: `get --raw .../nodes/${name}/proxy/healthz`,
    run: () => expecting(/^ok$/, api.get(`/api/v1/nodes/${name}/proxy/healthz`)),
  };
}

function podSteps(api: ApiClient, pod: PodSpec): Step[] {
  const { name, ports } = pod;
  const path = `/api/v1/namespaces/${namespaceOf(pod)}/pods/${name}`;
  const [port = 80] = ports;
  const greeting = new RegExp(`hello from ${name}: GET /\\n$`);
  return [
    {
      what: `logs --follow ${name}`,
      run: async () => {
        const lines = await api.followLog(`${path}/log`, 2);
        return expecting(new RegExp(`^${name}: line 1, ${name}: line 2$`), lines.join(", "));
      },
    },
    {
      what: `exec ${name} -- sh -c 'echo $((6 * 7)); exit 3'`,
      run: async () => {
        const command = ["sh", "-c", "echo $((6 * 7)); exit 3"];
        const { stdout, exitCode } = await api.exec(`${path}/exec`, command);
        return expecting(/^"42", exit code 3$/, `"${stdout.trim()}", exit code ${exitCode}`);
      },
    },
    {
      what: `port-forward ${name} ${port}`,
      run: async () => {
        const request = Buffer.from("GET / HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n");
        const answer = await api.portForward(`${path}/portforward`, port, request);
        // Of the answer the last line: its head has a date, and its body a length.
        const line = answer.split("\r\n").find((text) => text.startsWith("hello")) ?? answer;
        return expecting(greeting, line);
      },
    },
    {
      what: `get --raw .../pods/${name}/proxy/`,
      run: () => expecting(greeting, api.get(`${path}/proxy/`)),
    },
  ];
}

/** Time for a connection that must not come about. */
const DIRECT_MS = 2_000;

function directStep({ name, address, kubeletPort }: NodeSpec): Step {
  return {
    what: `${name}'s kubelet, without the tunnel`,
    run: async () => {
      const reason = await whyUnreachable(address, kubeletPort);
      if (reason === undefined)
        throw new Error(`${address}:${kubeletPort} can be reached directly`);
      return `cannot be reached: ${reason}`;
    },
  };
}

async function whyUnreachable(host: string, port: number): Promise<string | undefined> {
  const found = await lookup(host).catch((error: unknown) => error as NodeJS.ErrnoException);
  if (!("address" in found)) return found.message;
  return new Promise((resolve) => {
    const socket = connect({ host: found.address, port, timeout: DIRECT_MS });
    const done = (reason: string | undefined) => {
      socket.destroy();
      resolve(reason);
    };
    socket.once("connect", () => {
      done(undefined);
    });
    socket.once("timeout", () => {
      done(`${found.address}:${port} is silent`);
    });
    socket.once("error", ({ message }) => {
      done(message);
    });
  });
}

async function expecting(wanted: RegExp, answer: string | Promise<string>): Promise<string> {
  const text = await answer;
  if (wanted.test(text)) return text.trim();
  throw new Error(`expected ${String(wanted)}, got ${JSON.stringify(text)}`);
}
