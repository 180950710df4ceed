import assert from "node:assert/strict";
import { readExposition } from "@reachback/common/testing";
import type { ExposedSample } from "@reachback/common/testing";
import { WORKERS, until } from "./cluster.ts";

const PREFIX = "konnectivity_network_proxy_server_";

/** What a server exposes at this moment. */
export async function scrape(healthPort: number): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${healthPort}/metrics`, {
    headers: { connection: "close" },
  });
  return response.text();
}

/** One value of a server's upstream metrics, by its name without the prefix; 0 if it is not there. */
export async function valueOf(
  healthPort: number,
  name: string,
  labels: ExposedSample["labels"] = {},
): Promise<number> {
  return valueIn(readExposition(await scrape(healthPort)), `${PREFIX}${name}`, labels);
}

function valueIn(
  samples: readonly ExposedSample[],
  name: string,
  labels: ExposedSample["labels"],
): number {
  const wanted = Object.entries(labels);
  return (
    samples.find(
      (sample) =>
        sample.name === name && wanted.every(([key, value]) => sample.labels[key] === value),
    )?.value ?? 0
  );
}

/** Everything of a server that comes and goes with dials, connections and their streams. */
export async function whatIsHeld(healthPort: number): Promise<Record<string, number>> {
  const samples = readExposition(await scrape(healthPort));
  const gauge = (name: string, labels = {}) => valueIn(samples, `${PREFIX}${name}`, labels);
  return {
    pendingDials: gauge("pending_backend_dials"),
    connections: gauge("established_connections"),
    proxyStreams: gauge("grpc_connections", { service_method: "Proxy" }),
    connectRequests: gauge("http_connections"),
    fullQueues: gauge("full_receive_channels", { service_method: "Connect" }),
    tunnels: gauge("grpc_connections", { service_method: "Connect" }),
  };
}

/**
 * Wait until a server holds nothing of any dial or connection, with so many tunnels left. Agents of
 * ours have one to each worker, those that follow a script one at all.
 */
export async function assertNothingLeft(
  { healthPort }: { readonly healthPort: number },
  tunnels = 1,
): Promise<void> {
  const nothing = {
    pendingDials: 0,
    connections: 0,
    proxyStreams: 0,
    connectRequests: 0,
    fullQueues: 0,
    tunnels,
  };
  const whatIsLeft = async () => {
    const held = await whatIsHeld(healthPort);
    return held["tunnels"] === tunnels * WORKERS ? { ...held, tunnels } : held;
  };
  const isNothing = async () => JSON.stringify(await whatIsLeft()) === JSON.stringify(nothing);
  await until(isNothing).catch(() => undefined);
  assert.deepEqual(await whatIsLeft(), nothing);
}
