import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import { Readable, pipeline } from "node:stream";
import { describeTlsError } from "@reachback/common";
import { CONTAINER_NAME, namespaceOf, nodeOf } from "../cluster/cluster.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { listObject, podObjects } from "../cluster/objects.ts";
import { listen } from "../program.ts";
import type { Log, Running } from "../program.ts";
import { Container } from "./container.ts";
import { refuseUpgrade, serveStreaming } from "./streaming/upgrades.ts";
import type { StreamingVerb } from "./streaming/upgrades.ts";

export interface KubeletOptions {
  readonly cluster: Cluster;
  /** Which of the cluster's nodes it is the kubelet of; says the port too. */
  readonly nodeName: string;
  readonly bindAddress: string;
  readonly certPath: string;
  readonly keyPath: string;
  /** Who may make requests: holders of a certificate of this CA, and nobody else. */
  readonly clientCaPath: string;
}

/**
 * Start a kubelet, and the containers of its node.
 *
 * @throws {Error} if the node is not in the cluster, or its port cannot be had.
 */
export async function startKubelet(options: KubeletOptions, log: Log): Promise<Running> {
  const { cluster, nodeName } = options;
  const node = nodeOf(cluster, nodeName);
  if (node === undefined) throw new Error(`the cluster has no node "${nodeName}"`);
  const containers = cluster.pods
    .filter((pod) => pod.node === nodeName)
    .map((pod) => new Container(pod));

  const server = createServer(
    {
      cert: readFileSync(options.certPath),
      key: readFileSync(options.keyPath),
      ca: readFileSync(options.clientCaPath),
      requestCert: true,
      rejectUnauthorized: true,
    },
    (request, response) => {
      logRequest(log, request);
      answer(request, response, containers, () => listObject("Pod", podObjects(cluster, nodeName)));
    },
  );
  server.on("upgrade", (request, socket, head) => {
    socket.on("error", () => undefined);
    logRequest(log, request);
    const target = targetOf(request, containers);
    if (target.container === undefined || !isStreaming(target.verb)) {
      refuseUpgrade(socket, 404, `no such container: ${target.path}`);
    } else {
      serveStreaming(target.verb, target.query, target.container, { request, socket, head });
    }
  });
  server.on("tlsClientError", (error, socket) => {
    log("handshake.failed", { error: describeTlsError(error, "client", socket) });
  });
  await listen(server, node.kubeletPort, options.bindAddress);
  return {
    stop: () => {
      server.close();
      server.closeAllConnections();
      for (const { process } of containers) process.kill();
    },
  };
}

function answer(
  request: IncomingMessage,
  response: ServerResponse,
  containers: readonly Container[],
  podList: () => object,
): void {
  const { verb, path, query, container } = targetOf(request, containers);
  if (path === "/healthz") {
    response.end("ok");
  } else if (path === "/pods") {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(podList()));
  } else if (verb === "containerLogs" && container !== undefined) {
    answerLogs(query, container, response);
  } else if (isStreaming(verb) && container !== undefined) {
    refuse(response, 400, "you must specify at least 1 of stdin, stdout, stderr, and upgrade");
  } else {
    refuse(response, 404, `404 page not found: ${path}`);
  }
}

/** Other options of `kubectl logs` would need what this kubelet does not keep. */
const LOG_OPTIONS = ["follow", "tailLines", "timestamps"];

function answerLogs(query: URLSearchParams, container: Container, response: ServerResponse): void {
  const unknown = [...query.keys()].find((name) => !LOG_OPTIONS.includes(name));
  if (unknown !== undefined) {
    refuse(response, 400, `this kubelet is a test double and cannot do logs with ${unknown}`);
    return;
  }
  const interest = new AbortController();
  response.once("close", () => {
    interest.abort();
  });
  response.setHeader("content-type", "text/plain");
  // What is not there yet must not delay the answer.
  response.flushHeaders();
  const lines = container.log.read(
    {
      follow: query.get("follow") === "true",
      tailLines: Number(query.get("tailLines") ?? Number.POSITIVE_INFINITY),
      timestamps: query.get("timestamps") === "true",
    },
    interest.signal,
  );
  pipeline(Readable.from(lines), response, () => undefined);
}

interface Target {
  readonly path: string;
  readonly verb: string;
  readonly query: URLSearchParams;
  readonly container: Container | undefined;
}

/** What is meant by `/VERB/NAMESPACE/POD/CONTAINER`, or `/portForward/NAMESPACE/POD`. */
function targetOf({ url = "/" }: IncomingMessage, containers: readonly Container[]): Target {
  const { pathname, searchParams } = new URL(`https://kubelet${url}`);
  // Names of these need no escapes.
  const [, verb = "", namespace, podName, containerName = CONTAINER_NAME] = pathname.split("/");
  const container = containers.find(
    ({ pod }) =>
      namespaceOf(pod) === namespace && pod.name === podName && containerName === CONTAINER_NAME,
  );
  return { path: pathname, verb, query: searchParams, container };
}

function isStreaming(verb: string): verb is StreamingVerb {
  return verb === "exec" || verb === "attach" || verb === "portForward";
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response.statusCode = status;
  response.setHeader("content-type", "text/plain");
  response.end(`${message}\n`);
}

function logRequest(log: Log, { method, url, headers }: IncomingMessage): void {
  log("request", { method, path: url, upgrade: headers.upgrade });
}
