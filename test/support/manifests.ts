import { execFile, spawnSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { DaemonSet } from "kubernetes-types/apps/v1.d.ts";
import type { Container, Pod, PodSpec } from "kubernetes-types/core/v1.d.ts";
import type { ObjectMeta } from "kubernetes-types/meta/v1.d.ts";
import { parseAllDocuments } from "yaml";

/** An object of the Kubernetes API, as far as all of them are alike. */
export interface ManifestObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta & { readonly name: string };
}

export const MANIFESTS = fileURLToPath(new URL("../../deploy/kubernetes", import.meta.url));

/** What tests that need kubectl say where it is missing; false where it is there. */
export const NO_KUBECTL =
  spawnSync("kubectl", ["version", "--client"]).status === 0 ? false : "kubectl is not installed";

/** The folders that are meant to be rendered: `overlays/single`, ... */
export function overlays(): string[] {
  return ["overlays", "static-pods"].flatMap((kind) => {
    return readdirSync(`${MANIFESTS}/${kind}`)
      .filter((name) => existsSync(`${MANIFESTS}/${kind}/${name}/kustomization.yaml`))
      .map((name) => `${kind}/${name}`);
  });
}

/** What `kubectl kustomize` makes of a folder of deploy/kubernetes. */
export function render(folder: string): Promise<ManifestObject[]> {
  return renderFolder(`${MANIFESTS}/${folder}`);
}

/** The same of any folder. */
export async function renderFolder(folder: string): Promise<ManifestObject[]> {
  const options = { timeout: 30_000 };
  const { stdout } = await promisify(execFile)("kubectl", ["kustomize", folder], options);
  return objectsIn(stdout);
}

/** The objects in a file. */
export function readManifests(path: string): ManifestObject[] {
  return objectsIn(readFileSync(path, "utf8"));
}

function objectsIn(yaml: string): ManifestObject[] {
  const documents = parseAllDocuments(yaml).map((document) => document.toJS() as unknown);
  return documents.filter((object): object is ManifestObject => object !== null);
}

/** A pod, or what a DaemonSet makes pods from. */
export interface Workload {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: PodSpec;
}

export function workloadsOf(objects: readonly ManifestObject[]): Workload[] {
  return objects.flatMap((object) => {
    const pod =
      object.kind === "Pod"
        ? (object as Pod)
        : object.kind === "DaemonSet"
          ? (object as DaemonSet).spec?.template
          : undefined;
    if (pod?.spec === undefined) return [];
    return [{ name: object.metadata.name, labels: pod.metadata?.labels ?? {}, spec: pod.spec }];
  });
}

export function containersOf({ spec }: Workload): Container[] {
  return [...(spec.initContainers ?? []), ...spec.containers];
}

/** The container's arguments with `$(NAME)` filled in as Kubernetes does, and its environment. */
export function commandLineOf(container: Container): {
  readonly args: string[];
  readonly env: Record<string, string>;
} {
  const env: Record<string, string> = {};
  for (const { name, value, valueFrom } of container.env ?? []) {
    env[name] = value ?? FIELD_VALUES[valueFrom?.fieldRef?.fieldPath ?? ""] ?? "";
  }
  const args = (container.args ?? []).map((argument) => {
    return argument.replace(/\$\(([A-Z_]+)\)/g, (text, name: string) => env[name] ?? text);
  });
  return { args, env };
}

/** A node's, for fields that pods learn about themselves. */
const FIELD_VALUES: Readonly<Record<string, string>> = {
  "status.hostIP": "192.0.2.7",
  "spec.nodeName": "node-1.example",
};
