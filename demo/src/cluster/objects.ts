import { CONTAINER_NAME, namespaceOf } from "./cluster.ts";
import type { Cluster, NodeSpec, PodSpec, ServiceSpec } from "./cluster.ts";

/** An object of the Kubernetes API. */
export interface KubernetesObject {
  readonly kind: string;
  readonly apiVersion: "v1";
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly creationTimestamp: string;
  };
  readonly spec: object;
  readonly status: object;
}

/** kubectl 1.30 and newer talk to it without a warning about its age. */
export const KUBERNETES_VERSION = "v1.32.0";

const CREATED_AT = new Date().toISOString().replace(/\.\d+/, "");

export function nodeObject({ name, address, kubeletPort }: NodeSpec): KubernetesObject {
  return {
    kind: "Node",
    apiVersion: "v1",
    metadata: {
      name,
      labels: { "kubernetes.io/hostname": name },
      creationTimestamp: CREATED_AT,
    },
    spec: {},
    status: {
      addresses: [
        { type: "InternalIP", address },
        { type: "Hostname", address: name },
      ],
      conditions: [{ type: "Ready", status: "True" }],
      daemonEndpoints: { kubeletEndpoint: { Port: kubeletPort } },
      nodeInfo: { kubeletVersion: KUBERNETES_VERSION, osImage: "reachback demo" },
    },
  };
}

export function podObject(pod: PodSpec, nodeAddress: string): KubernetesObject {
  const { stdin = false, tty = false, command = [] } = pod.container ?? {};
  return {
    kind: "Pod",
    apiVersion: "v1",
    metadata: {
      name: pod.name,
      namespace: namespaceOf(pod),
      labels: pod.labels ?? {},
      creationTimestamp: CREATED_AT,
    },
    spec: {
      nodeName: pod.node,
      restartPolicy: "Never",
      containers: [
        {
          name: CONTAINER_NAME,
          image: "reachback/demo",
          command,
          stdin,
          tty,
          ports: pod.ports.map((containerPort) => ({ containerPort, protocol: "TCP" })),
        },
      ],
    },
    status: {
      phase: "Running",
      hostIP: nodeAddress,
      podIP: pod.ip,
      podIPs: [{ ip: pod.ip }],
      startTime: CREATED_AT,
      conditions: [{ type: "Ready", status: "True" }],
      containerStatuses: [
        {
          name: CONTAINER_NAME,
          image: "reachback/demo",
          imageID: "",
          ready: true,
          started: true,
          restartCount: 0,
          state: { running: { startedAt: CREATED_AT } },
        },
      ],
    },
  };
}

export function serviceObject(service: ServiceSpec): KubernetesObject {
  const { name, selector, port, targetPort } = service;
  return {
    kind: "Service",
    apiVersion: "v1",
    metadata: { name, namespace: namespaceOf(service), creationTimestamp: CREATED_AT },
    spec: {
      type: "ClusterIP",
      clusterIP: "None",
      selector,
      ports: [{ port, targetPort, protocol: "TCP" }],
    },
    status: { loadBalancer: {} },
  };
}

/** The objects of the pods, on one node or on all. */
export function podObjects(cluster: Cluster, nodeName?: string): KubernetesObject[] {
  return cluster.nodes
    .filter(({ name }) => nodeName === undefined || name === nodeName)
    .flatMap(({ name, address }) =>
      cluster.pods.filter(({ node }) => node === name).map((pod) => podObject(pod, address)),
    );
}

export function listObject(kind: string, items: readonly KubernetesObject[]): object {
  return { kind: `${kind}List`, apiVersion: "v1", metadata: { resourceVersion: "1" }, items };
}
