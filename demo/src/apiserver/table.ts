import type { KubernetesObject } from "../cluster/objects.ts";

/** What `kubectl get` shows of a kind of objects: headings, and how a cell is found. */
type Columns = Readonly<Record<string, (object: KubernetesObject) => string>>;

const name = ({ metadata }: KubernetesObject) => metadata.name;

const COLUMNS: Readonly<Record<string, Columns>> = {
  Node: {
    Name: name,
    Status: () => "Ready",
    Version: (object) => textAt(object, "status", "nodeInfo", "kubeletVersion"),
    Address: (object) => textAt(object, "status", "addresses", "0", "address"),
  },
  Pod: {
    Name: name,
    Status: (object) => textAt(object, "status", "phase"),
    IP: (object) => textAt(object, "status", "podIP"),
    Node: (object) => textAt(object, "spec", "nodeName"),
  },
  Service: {
    Name: name,
    "Port(s)": (object) => textAt(object, "spec", "ports", "0", "port"),
    Selector: (object) => textAt(object, "spec", "selector"),
  },
};

/** Objects of one kind as the `Table` that `kubectl get` asks for. */
export function tableOf(kind: string, objects: readonly KubernetesObject[]): object {
  const columns = Object.entries(COLUMNS[kind] ?? {});
  return {
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    metadata: { resourceVersion: "1" },
    columnDefinitions: columns.map(([heading]) => ({
      name: heading,
      type: "string",
      format: heading === "Name" ? "name" : "",
      description: heading,
      priority: 0,
    })),
    rows: objects.map((object) => ({
      cells: columns.map(([, cellOf]) => cellOf(object)),
      object: {
        kind: "PartialObjectMetadata",
        apiVersion: "meta.k8s.io/v1",
        metadata: object.metadata,
      },
    })),
  };
}

function textAt(object: object, ...path: string[]): string {
  const value = path.reduce<unknown>(
    (inner, key) => (Object(inner) as Record<string, unknown>)[key],
    object,
  );
  return typeof value === "string" ? value : JSON.stringify(value);
}
