import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import type { Container, SecurityContext, Volume } from "kubernetes-types/core/v1.d.ts";
import { until } from "./cluster.ts";
import { docker, lastLinesOf } from "./compose.ts";
import { commandLineOf } from "./manifests.ts";
import type { Workload } from "./manifests.ts";

// What a kubelet does with a pod, as far as the manifests of this repository need it, with Docker.

/** Files by name. */
export type Files = Readonly<Record<string, string>>;

/** Where pods run. */
export interface Node {
  /** Stands in for the root of its file system: what pods mount of the host is below. */
  readonly root: string;
  /** A network of Docker's, for pods on the host's network too: its ports may be taken. */
  readonly network: string;
  /** The cluster's Secrets and ConfigMaps, by name. */
  readonly objects: Readonly<Record<string, Files>>;
  /** A service account's folder and its audience's token, and where the apiserver is. */
  readonly serviceAccount: Files;
  readonly projectedToken: string;
  readonly apiserver: URL;
}

/** For a container on a machine with much else to do. */
const START_TIMEOUT_MS = 60_000;

/** A pod that runs. Its container is that of the program, init containers have ended. */
export class RunningPod {
  readonly id: string;
  readonly #name: string;
  readonly #container: Container;

  constructor(id: string, name: string, container: Container) {
    this.id = id;
    this.#name = name;
    this.#container = container;
  }

  /** Wait until its probes succeed. @throws with its log, if they do not. */
  async ready(): Promise<void> {
    const { livenessProbe, readinessProbe } = this.#container;
    try {
      for (const probe of [livenessProbe, readinessProbe]) {
        const { path = "", port = "" } = probe?.httpGet ?? {};
        const named = this.#container.ports?.find(({ name }) => name === port)?.containerPort;
        if (probe === undefined) continue;
        await until(() => this.#answers(path, String(named ?? port)), START_TIMEOUT_MS);
      }
    } catch (error) {
      const log = await lastLinesOf(this.id);
      throw new Error(`${this.#name} is not ready; its log:\n${log}`, { cause: error });
    }
  }

  async #answers(path: string, port: string): Promise<boolean> {
    const check = ["node", "/opt/reachback/healthcheck.js"];
    return docker(
      ...["exec", `--env=HEALTH_PATH=${path}`, `--env=HEALTH_PORT=${port}`, this.id, ...check],
    ).then(
      () => true,
      () => false,
    );
  }
}

/**
 * Run a pod until the test ends.
 *
 * @param hostname - By which others on the network find it.
 */
export async function startPod(
  t: TestContext,
  workload: Workload,
  node: Node,
  hostname: string,
): Promise<RunningPod> {
  const { initContainers = [], containers } = workload.spec;
  const [program] = containers;
  if (program === undefined) throw new Error(`${workload.name} has no containers`);
  for (const container of initContainers) {
    await docker("run", "--rm", ...runArguments(workload, container, node));
  }
  const options = ["--detach", `--network-alias=${hostname}`];
  const id = await docker("run", ...options, ...runArguments(workload, program, node));
  t.after(() => docker("rm", "--force", "--volumes", id));
  return new RunningPod(id, workload.name, program);
}

function runArguments(workload: Workload, container: Container, node: Node): string[] {
  const { args, env } = commandLineOf(container);
  const [entrypoint = "", ...first] = container.command ?? [];
  const memory = container.resources?.limits?.["memory"];
  const variables = {
    KUBERNETES_SERVICE_HOST: node.apiserver.hostname,
    KUBERNETES_SERVICE_PORT: node.apiserver.port,
    ...env,
  };
  return [
    `--network=${node.network}`,
    ...confinementOf(workload, container),
    ...(memory === undefined ? [] : [`--memory=${memory.replace(/i$/, "")}`]),
    ...Object.entries(variables).map(([name, value]) => `--env=${name}=${value}`),
    ...mountsOf(workload, container, node),
    `--entrypoint=${entrypoint}`,
    builtImageOf(container),
    ...first,
    ...args,
  ];
}

/** The image as `docker compose build` calls it: without registry and tag. */
function builtImageOf({ image = "" }: Container): string {
  return image.replace(/^.*\//, "").replace(/:.*$/, "");
}

function confinementOf({ spec }: Workload, container: Container): string[] {
  const { runAsUser, runAsGroup, readOnlyRootFilesystem, allowPrivilegeEscalation, capabilities } =
    { ...spec.securityContext, ...container.securityContext } as SecurityContext;
  const fsGroup = spec.securityContext?.fsGroup;
  const group = runAsGroup === undefined ? "" : `:${runAsGroup}`;
  return [
    ...(runAsUser === undefined ? [] : [`--user=${runAsUser}${group}`]),
    ...(fsGroup === undefined ? [] : [`--group-add=${fsGroup}`]),
    ...(readOnlyRootFilesystem === true ? ["--read-only"] : []),
    ...(allowPrivilegeEscalation === false ? ["--security-opt=no-new-privileges"] : []),
    ...(capabilities?.drop ?? []).map((name) => `--cap-drop=${name}`),
    ...(capabilities?.add ?? []).map((name) => `--cap-add=${name}`),
  ];
}

const SERVICE_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

function mountsOf({ name: pod, spec }: Workload, container: Container, node: Node): string[] {
  const mounts = (container.volumeMounts ?? []).map(({ name, mountPath, readOnly }) => {
    const volume = spec.volumes?.find((candidate) => candidate.name === name);
    if (volume === undefined) throw new Error(`${pod} has no volume ${name}`);
    if (volume.emptyDir !== undefined) {
      const { sizeLimit = "0" } = volume.emptyDir;
      return `--tmpfs=${mountPath}:mode=0777,size=${sizeLimit.replace(/i$/, "")}`;
    }
    const source = sourceOf(volume, join(node.root, "var/lib/kubelet", pod, name), node);
    return `--volume=${source}:${mountPath}${readOnly === true ? ":ro" : ""}`;
  });
  const { serviceAccountName, automountServiceAccountToken } = spec;
  if (serviceAccountName !== undefined && automountServiceAccountToken !== false) {
    const folder = join(node.root, "var/lib/kubelet", pod, "service-account");
    writeVolume(folder, node.serviceAccount);
    mounts.push(`--volume=${folder}:${SERVICE_ACCOUNT_FOLDER}:ro`);
  }
  return mounts;
}

/** The path on this machine that a volume is. */
function sourceOf({ name, hostPath, secret, projected }: Volume, folder: string, node: Node) {
  if (hostPath !== undefined) {
    const path = join(node.root, hostPath.path);
    if (hostPath.type === "DirectoryOrCreate") mkdirSync(path, { recursive: true });
    if (hostPath.type === "FileOrCreate" && !existsSync(path)) {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, "");
    }
    if (!existsSync(path)) throw new Error(`volume ${name}: there is no ${hostPath.path}`);
    return path;
  }
  const files: Record<string, string> = {};
  if (secret !== undefined) Object.assign(files, objectNamed(node, secret.secretName));
  for (const { serviceAccountToken, configMap } of projected?.sources ?? []) {
    if (serviceAccountToken !== undefined) files[serviceAccountToken.path] = node.projectedToken;
    for (const { key, path } of configMap?.items ?? []) {
      const text = objectNamed(node, configMap?.name)[key];
      if (text === undefined) throw new Error(`${configMap?.name} has no ${key}`);
      files[path] = text;
    }
  }
  if (Object.keys(files).length === 0) throw new Error(`volume ${name} is empty`);
  writeVolume(folder, files);
  return folder;
}

function objectNamed({ objects }: Node, name = ""): Files {
  const files = objects[name];
  if (files === undefined) throw new Error(`nobody has made ${name}`);
  return files;
}

/** As Kubernetes does it: everybody in the pod may read it. */
function writeVolume(folder: string, files: Files): void {
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), text, { mode: 0o644 });
  }
}
