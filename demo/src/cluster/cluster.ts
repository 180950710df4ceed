import { readFileSync } from "node:fs";

/** What there is in the cluster: the file that the apiserver and the kubelets are started with. */
export interface Cluster {
  readonly nodes: readonly NodeSpec[];
  readonly pods: readonly PodSpec[];
  readonly services: readonly ServiceSpec[];
}

export interface NodeSpec {
  readonly name: string;
  /** Where agents reach its kubelet, and whom the kubelet's certificate must be for. */
  readonly address: string;
  readonly kubeletPort: number;
}

export interface PodSpec {
  /** @defaultValue `"default"` */
  readonly namespace?: string;
  readonly name: string;
  /** The name of its node. */
  readonly node: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Where agents, and the kubelet for port-forward, reach it: an address, or a host name. */
  readonly ip: string;
  /** The first one is that of `kubectl get --raw .../pods/NAME/proxy/`. */
  readonly ports: readonly number[];
  /** What `logs` and `attach` show, run by the kubelet. */
  readonly container?: ContainerSpec;
}

export interface ContainerSpec {
  /** @defaultValue a shell that writes a line each second */
  readonly command?: readonly string[];
  /** Whether what it reads can be attached to. @defaultValue false */
  readonly stdin?: boolean;
  /** Whether it runs in a terminal. @defaultValue false */
  readonly tty?: boolean;
}

export interface ServiceSpec {
  /** @defaultValue `"default"` */
  readonly namespace?: string;
  readonly name: string;
  /** Labels of its pods. */
  readonly selector: Readonly<Record<string, string>>;
  readonly port: number;
  readonly targetPort: number;
}

/** The name of the one container that each pod has. */
export const CONTAINER_NAME = "main";

/** @throws {Error} naming the file and what is wrong with it. */
export function readCluster(path: string): Cluster {
  try {
    const cluster = JSON.parse(readFileSync(path, "utf8")) as Cluster;
    for (const kind of ["nodes", "pods", "services"] as const) {
      if (!Array.isArray(cluster[kind])) throw new Error(`"${kind}" is no list`);
    }
    for (const { name, node } of cluster.pods) {
      if (nodeOf(cluster, node) === undefined) {
        throw new Error(`pod "${name}" is on node "${node}", which is not there`);
      }
    }
    return cluster;
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new Error(`cluster file ${path}: ${problem}`, { cause: error });
  }
}

export function nodeOf({ nodes }: Cluster, name: string): NodeSpec | undefined {
  return nodes.find((node) => node.name === name);
}

export function podOf({ pods }: Cluster, namespace: string, name: string): PodSpec | undefined {
  return pods.find((pod) => namespaceOf(pod) === namespace && pod.name === name);
}

export function serviceOf(
  { services }: Cluster,
  namespace: string,
  name: string,
): ServiceSpec | undefined {
  return services.find((service) => namespaceOf(service) === namespace && service.name === name);
}

export function podsOfService({ pods }: Cluster, service: ServiceSpec): PodSpec[] {
  const wanted = Object.entries(service.selector);
  return pods.filter(
    (pod) =>
      namespaceOf(pod) === namespaceOf(service) &&
      wanted.every(([label, value]) => pod.labels?.[label] === value),
  );
}

export function namespaceOf({ namespace = "default" }: { readonly namespace?: string }): string {
  return namespace;
}
