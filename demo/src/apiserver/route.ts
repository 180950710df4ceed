import { parseLabelSelector } from "@reachback/common";
import {
  CONTAINER_NAME,
  namespaceOf,
  nodeOf,
  podOf,
  podsOfService,
  serviceOf,
} from "../cluster/cluster.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { nodeObject, podObject, podObjects, serviceObject } from "../cluster/objects.ts";
import type { KubernetesObject } from "../cluster/objects.ts";
import { failure, notFound } from "../cluster/status.ts";
import type { Status } from "../cluster/status.ts";
import { DISCOVERY } from "./discovery.ts";

/** What a request is for. */
export type Route =
  | { readonly kind: "document"; readonly document: object }
  | { readonly kind: "object"; readonly object: KubernetesObject }
  | {
      readonly kind: "list";
      readonly itemKind: string;
      readonly objects: readonly KubernetesObject[];
    }
  | { readonly kind: "failure"; readonly status: Status }
  | { readonly kind: "forward"; readonly endpoint: Endpoint };

/** Where a request is forwarded to, through the tunnel. */
export interface Endpoint {
  /** `https` only to kubelets' verified certificates. */
  readonly scheme: "http" | "https";
  readonly host: string;
  readonly port: number;
  readonly path: string;
}

/** What is meant by a request's path and query, as sent. */
export function routeOf(cluster: Cluster, url: string): Route {
  try {
    return findRoute(cluster, url);
  } catch (error) {
    // A label selector or a percent sign that means nothing.
    return failed(failure(400, error instanceof Error ? error.message : url, "BadRequest"));
  }
}

function findRoute(cluster: Cluster, url: string): Route {
  const { pathname, searchParams, search } = new URL(`https://apiserver${url}`);
  const document = DISCOVERY[pathname];
  if (document !== undefined) return { kind: "document", document };

  const path = resourcePath(pathname);
  if (path === undefined) return failed(failure(404, `no resource at ${pathname}`, "NotFound"));
  if (path.name === undefined) return list(cluster, path, searchParams);
  if (path.subresource === undefined) return one(cluster, path, path.name);
  if (path.subresource === "proxy") return proxy(cluster, path, path.name, search);
  return podSubresource(cluster, path, path.name, searchParams);
}

interface ResourcePath {
  readonly namespace: string | undefined;
  readonly resource: "nodes" | "pods" | "services";
  readonly name: string | undefined;
  readonly subresource: string | undefined;
  /** What is behind the subresource, with its slash. */
  readonly rest: string;
}

const RESOURCE_PATH =
  /^\/api\/v1\/(?:namespaces\/([^/]+)\/(?=pods|services))?(nodes|pods|services)(?:\/([^/]+)(?:\/([^/]+)(\/.*)?)?)?$/;

function resourcePath(pathname: string): ResourcePath | undefined {
  const match = RESOURCE_PATH.exec(pathname);
  if (match === null) return undefined;
  const [, namespace, resource, name, subresource, rest = "/"] = match;
  return {
    namespace,
    resource: resource as ResourcePath["resource"],
    name: name === undefined ? undefined : decodeURIComponent(name),
    subresource,
    rest,
  };
}

function list(
  cluster: Cluster,
  { namespace, resource }: ResourcePath,
  query: URLSearchParams,
): Route {
  if (query.get("watch") === "true") {
    return failed(failure(405, "this apiserver is a test double and has no watch"));
  }
  const all = {
    nodes: () => cluster.nodes.map(nodeObject),
    pods: () => podObjects(cluster),
    services: () => cluster.services.map(serviceObject),
  }[resource]();
  const selector = parseLabelSelector(query.get("labelSelector") ?? "");
  const objects = all.filter(
    ({ metadata }) =>
      (namespace === undefined || metadata.namespace === namespace) &&
      selector.matches(metadata.labels ?? {}),
  );
  return { kind: "list", itemKind: KINDS[resource], objects };
}

const KINDS = { nodes: "Node", pods: "Pod", services: "Service" } as const;

function one(cluster: Cluster, path: ResourcePath, name: string): Route {
  const object = objectOf(cluster, path, name);
  return object === undefined ? failed(notFound(path.resource, name)) : { kind: "object", object };
}

function objectOf(
  cluster: Cluster,
  { resource, namespace = "default" }: ResourcePath,
  name: string,
): KubernetesObject | undefined {
  if (resource === "nodes") {
    const node = nodeOf(cluster, name);
    return node && nodeObject(node);
  }
  if (resource === "services") {
    const service = serviceOf(cluster, namespace, name);
    return service && serviceObject(service);
  }
  const pod = podOf(cluster, namespace, name);
  return pod && podObject(pod, nodeOf(cluster, pod.node)?.address ?? "");
}

/** A kubelet's path for each subresource of a pod, and its names for the query's parameters. */
const POD_SUBRESOURCES: Readonly<
  Record<string, { readonly verb: string; readonly rename: Readonly<Record<string, string>> }>
> = {
  log: { verb: "containerLogs", rename: {} },
  exec: { verb: "exec", rename: { stdin: "input", stdout: "output", stderr: "error" } },
  attach: { verb: "attach", rename: { stdin: "input", stdout: "output", stderr: "error" } },
  portforward: { verb: "portForward", rename: {} },
};

function podSubresource(
  cluster: Cluster,
  { resource, namespace = "default", subresource = "" }: ResourcePath,
  name: string,
  query: URLSearchParams,
): Route {
  const known = resource === "pods" ? POD_SUBRESOURCES[subresource] : undefined;
  if (known === undefined) return failed(notFound(resource, `${name}/${subresource}`));
  const pod = podOf(cluster, namespace, name);
  const node = pod && nodeOf(cluster, pod.node);
  if (pod === undefined || node === undefined) return failed(notFound("pods", name));
  const container = query.get("container") ?? CONTAINER_NAME;
  if (container !== CONTAINER_NAME) {
    const message = `container ${container} is not valid for pod ${name}`;
    return failed(failure(400, message, "BadRequest"));
  }

  const forwarded = new URLSearchParams();
  for (const [parameter, value] of query) {
    if (parameter !== "container") {
      forwarded.append(known.rename[parameter] ?? parameter, value);
    }
  }
  const steps = [known.verb, namespaceOf(pod), pod.name];
  if (subresource !== "portforward") steps.push(container);
  return forward({
    scheme: "https",
    host: node.address,
    port: node.kubeletPort,
    path: `/${steps.map(encodeURIComponent).join("/")}?${forwarded.toString()}`,
  });
}

/** `[SCHEME:]NAME[:PORT]`, as a proxied node, pod or service is named. */
const PROXY_NAME = /^(?:(https?):)?([^:]+)(?::([0-9]+))?$/;

function proxy(
  cluster: Cluster,
  { resource, namespace = "default", rest }: ResourcePath,
  text: string,
  search: string,
): Route {
  const [, scheme = "http", name = "", port] = PROXY_NAME.exec(text) ?? [];
  const path = `${rest}${search}`;
  if (resource === "nodes") {
    const node = nodeOf(cluster, name);
    if (node === undefined) return failed(notFound(resource, name));
    return forward({ scheme: "https", host: node.address, port: node.kubeletPort, path });
  }
  if (scheme !== "http") {
    return failed(failure(400, "only kubelets are proxied to over HTTPS here", "BadRequest"));
  }
  if (resource === "pods") {
    const pod = podOf(cluster, namespace, name);
    if (pod === undefined) return failed(notFound(resource, name));
    return forward({ scheme, host: pod.ip, port: Number(port ?? pod.ports[0] ?? 80), path });
  }
  const service = serviceOf(cluster, namespace, name);
  if (service === undefined) return failed(notFound(resource, name));
  const [pod] = podsOfService(cluster, service);
  if (pod === undefined || (port !== undefined && Number(port) !== service.port)) {
    const message = `no endpoints available for service "${text}"`;
    return failed(failure(503, message, "ServiceUnavailable"));
  }
  return forward({ scheme, host: pod.ip, port: service.targetPort, path });
}

function forward(endpoint: Endpoint): Route {
  return { kind: "forward", endpoint };
}

function failed(status: Status): Route {
  return { kind: "failure", status };
}
