import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Container, Service } from "kubernetes-types/core/v1.d.ts";
import type { NetworkPolicy } from "kubernetes-types/networking/v1.d.ts";
import type { PodDisruptionBudget } from "kubernetes-types/policy/v1.d.ts";
import type { ClusterRoleBinding } from "kubernetes-types/rbac/v1.d.ts";
import { parseFlags } from "@reachback/common";
import type { FileExists } from "@reachback/common";
import { agentFlagProblems } from "../../packages/agent/src/options/agent-flag-problems.ts";
import { AGENT_FLAGS } from "../../packages/agent/src/options/agent-flags.ts";
import { serverFlagProblems } from "../../packages/server/src/options/server-flag-problems.ts";
import { SERVER_FLAGS } from "../../packages/server/src/options/server-flags.ts";
import { kubernetesProblems } from "../support/kubernetes-schema.ts";
import {
  NO_KUBECTL,
  commandLineOf,
  containersOf,
  overlays,
  render,
  workloadsOf,
} from "../support/manifests.ts";
import type { ManifestObject, Workload } from "../support/manifests.ts";

describe("the schema that manifests are checked against", () => {
  it("refuses unknown fields, missing ones and wrong types, however deep", () => {
    const pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "x" },
      spec: { containers: [{ name: "x", ports: [{ hostPort: 1 }], stdin: "yes", imagge: "x" }] },
    };
    assert.deepEqual(
      kubernetesProblems(pod)
        .map((problem) => problem.split(" ")[0])
        .sort(),
      ["/spec/containers/0", "/spec/containers/0/ports/0", "/spec/containers/0/stdin"],
    );
    assert.throws(() => kubernetesProblems({ apiVersion: "apps/v1", kind: "Pod" }));
  });
});

for (const folder of overlays()) {
  describe(`deploy/kubernetes/${folder}`, { skip: NO_KUBECTL }, () => {
    const rendered = NO_KUBECTL === false ? render(folder) : Promise.resolve([]);

    it("renders to objects as the Kubernetes API has them", async () => {
      const objects = await rendered;
      assert.ok(objects.length > 0);
      for (const object of objects) {
        assert.deepEqual(kubernetesProblems(object), [], nameOf(object));
        if (object.kind !== "ClusterRoleBinding") {
          assert.equal(object.metadata.namespace, "kube-system", nameOf(object));
        }
      }
    });

    it("gives the programs flags that they accept, and files that are mounted", async () => {
      const programs = workloadsOf(await rendered).flatMap(({ spec }) => spec.containers);
      assert.ok(programs.length > 0);
      for (const container of programs) {
        assert.deepEqual(await flagProblems(container), [], container.name);
      }
    });

    it("probes the port that the program serves health on", async () => {
      for (const { spec } of workloadsOf(await rendered)) {
        for (const container of spec.containers) {
          const port = flagOf(container, "health-port") ?? flagOf(container, "health-server-port");
          for (const probe of [container.livenessProbe, container.readinessProbe]) {
            const probed = probe?.httpGet?.port;
            const named = container.ports?.find(({ name }) => name === probed)?.containerPort;
            assert.equal(String(named ?? probed), port, container.name);
          }
        }
      }
    });

    it("lets no container do more than it must", async () => {
      for (const workload of workloadsOf(await rendered)) {
        assert.equal(workload.spec.securityContext?.seccompProfile?.type, "RuntimeDefault");
        for (const container of containersOf(workload)) checkRights(workload, container);
      }
    });

    it("mounts volumes that are there, and selects pods that are there", async () => {
      const objects = await rendered;
      const workloads = workloadsOf(objects);
      for (const { name, spec } of workloads) {
        const volumes = new Set(spec.volumes?.map((volume) => volume.name));
        const mounted = spec.containers.concat(spec.initContainers ?? []).flatMap((container) => {
          return container.volumeMounts?.map((mount) => mount.name) ?? [];
        });
        assert.deepEqual(new Set(mounted), volumes, name);
      }
      for (const object of objects) checkReferences(object, objects, workloads);
    });
  });
}

function nameOf({ kind, metadata }: ManifestObject): string {
  return `${kind} ${metadata.name}`;
}

/** What the program would say of the container's command line, having only files that are mounted. */
async function flagProblems(container: Container): Promise<string[]> {
  const { args, env } = commandLineOf(container);
  const mounts = container.volumeMounts?.map(({ mountPath }) => mountPath) ?? [];
  const isMounted: FileExists = (path) => {
    return mounts.some((mount) => path === mount || path.startsWith(`${mount}/`));
  };
  const onDeprecated = (line: string): never => assert.fail(line);
  const program = container.command?.join(" ");
  if (program === "/proxy-agent") {
    const flags = await parseFlags(AGENT_FLAGS, { argv: args, env, onDeprecated });
    return agentFlagProblems(flags, isMounted);
  }
  assert.equal(program, "/proxy-server");
  const flags = await parseFlags(SERVER_FLAGS, { argv: args, env, onDeprecated });
  const socketFolder = flags.values["uds-name"].replace(/\/[^/]*$/, "");
  assert.ok(socketFolder === "" || isMounted(socketFolder), socketFolder);
  assert.ok(isMounted("/tmp"), "--workers needs a folder for sockets");
  return serverFlagProblems(flags, isMounted);
}

function flagOf({ args = [] }: Container, name: string): string | undefined {
  return args.find((argument) => argument.startsWith(`--${name}=`))?.split("=")[1];
}

function checkRights({ spec }: Workload, container: Container): void {
  const { securityContext = {}, resources = {}, name } = container;
  assert.equal(securityContext.readOnlyRootFilesystem, true, name);
  assert.equal(securityContext.allowPrivilegeEscalation, false, name);
  assert.deepEqual(securityContext.capabilities?.drop, ["ALL"], name);
  assert.deepEqual(Object.keys(resources.requests ?? {}), ["cpu", "memory"], name);
  assert.deepEqual(Object.keys(resources.limits ?? {}), ["memory"], name);
  if (name === "konnectivity-agent") assert.equal(resources.limits?.["memory"], "96Mi");
  if (name === "socket-folder") {
    assert.deepEqual(securityContext.capabilities.add, ["CHOWN"]);
    return;
  }
  assert.equal(securityContext.capabilities.add, undefined, name);
  assert.equal(securityContext.runAsUser, undefined, name);
  assert.equal(spec.securityContext?.runAsUser, 65532, name);
  assert.equal(spec.securityContext.runAsNonRoot, true, name);
}

/** Servers of the static-pod overlays come from elsewhere, with the label of the others. */
const STATIC_POD_LABELS = { "k8s-app": "konnectivity-server" };

function checkReferences(
  object: ManifestObject,
  objects: readonly ManifestObject[],
  workloads: readonly Workload[],
): void {
  const selector = selectorOf(object);
  if (selector !== undefined) {
    const candidates = [...workloads.map(({ labels }) => labels), STATIC_POD_LABELS];
    const isSelected = candidates.some((labels: Readonly<Record<string, string>>) => {
      return Object.entries(selector).every(([key, value]) => labels[key] === value);
    });
    assert.ok(isSelected, `${nameOf(object)} selects nothing`);
  }
  if (object.kind.endsWith("RoleBinding")) {
    const { roleRef, subjects = [] } = object as unknown as ClusterRoleBinding;
    if (roleRef.kind === "Role") assert.ok(isThere(objects, "Role", roleRef.name), nameOf(object));
    for (const { kind, name } of subjects) {
      if (kind === "ServiceAccount" && name === "konnectivity-agent") {
        assert.ok(isThere(objects, kind, name), nameOf(object));
      }
    }
  }
  for (const { spec } of workloadsOf([object])) {
    const account = spec.serviceAccountName;
    if (account === undefined) continue;
    assert.ok(isThere(objects, "ServiceAccount", account), nameOf(object));
  }
}

function isThere(objects: readonly ManifestObject[], kind: string, name: string): boolean {
  return objects.some((object) => object.kind === kind && object.metadata.name === name);
}

function selectorOf(object: ManifestObject): Readonly<Record<string, string>> | undefined {
  switch (object.kind) {
    case "Service":
      return (object as Service).spec?.selector;
    case "PodDisruptionBudget":
      return (object as PodDisruptionBudget).spec?.selector?.matchLabels;
    case "NetworkPolicy":
      return (object as NetworkPolicy).spec?.podSelector.matchLabels;
    default:
      return undefined;
  }
}
