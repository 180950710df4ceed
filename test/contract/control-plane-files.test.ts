import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { Ajv } from "ajv";
import type { Pod } from "kubernetes-types/core/v1.d.ts";
import { parse } from "yaml";
import { kubernetesProblems } from "../support/kubernetes-schema.ts";
import { MANIFESTS, NO_KUBECTL, render, workloadsOf } from "../support/manifests.ts";

// What goes onto a control-plane node beside manifests: kube-apiserver's egress selector, the patch
// that makes it read one, and the configuration of a kind cluster that has both.

interface EgressSelectorConfiguration {
  readonly egressSelections: readonly {
    readonly name: string;
    readonly connection: {
      readonly proxyProtocol: "GRPC" | "HTTPConnect" | "Direct";
      readonly transport?: {
        readonly uds?: { readonly udsName: string };
        readonly tcp?: { readonly url: string; readonly tlsConfig: Record<string, string> };
      };
    };
  }[];
}

/** apiserver.k8s.io/v1beta1, with what kube-apiserver's validation demands of it at its start. */
const isEgressSelector = new Ajv({ allErrors: true, strictRequired: false }).compile({
  $defs: {
    uds: record({ udsName: { type: "string", pattern: "^/" } }),
    tcp: record({
      url: { type: "string", pattern: "^https://" },
      tlsConfig: record({
        caBundle: { type: "string", pattern: "^/" },
        clientCert: { type: "string", pattern: "^/" },
        clientKey: { type: "string", pattern: "^/" },
      }),
    }),
    connection: {
      oneOf: [
        record({ proxyProtocol: { const: "Direct" } }),
        // It knows no gRPC over TCP.
        connection("GRPC", record({ uds: { $ref: "#/$defs/uds" } })),
        connection("HTTPConnect", record({ uds: { $ref: "#/$defs/uds" } })),
        connection("HTTPConnect", record({ tcp: { $ref: "#/$defs/tcp" } })),
      ],
    },
  },
  ...record({
    apiVersion: { const: "apiserver.k8s.io/v1beta1" },
    kind: { const: "EgressSelectorConfiguration" },
    egressSelections: {
      type: "array",
      items: record({
        name: { enum: ["cluster", "controlplane", "etcd"] },
        connection: { $ref: "#/$defs/connection" },
      }),
    },
  }),
});

/** An object that has exactly these fields. */
function record(properties: Record<string, object>): object {
  return {
    type: "object",
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
  };
}

function connection(proxyProtocol: string, transport: object): object {
  return record({ proxyProtocol: { const: proxyProtocol }, transport });
}

/** Which server each egress selector is for. */
const SERVERS_BY_SELECTOR: Readonly<Record<string, readonly string[]>> = {
  "grpc-uds.yaml": ["overlays/single", "overlays/ha", "static-pods/single", "static-pods/ha"],
  "http-connect-uds.yaml": ["overlays/single-http-connect", "static-pods/single-http-connect"],
  "http-connect-mtls-tcp.yaml": ["overlays/single-mtls-tcp"],
};

const SELECTORS = `${MANIFESTS}/control-plane/egress-selector`;

function readSelector(file: string): EgressSelectorConfiguration {
  const selector: unknown = parse(readFileSync(`${SELECTORS}/${file}`, "utf8"));
  assert.ok(isEgressSelector(selector), JSON.stringify(isEgressSelector.errors));
  return selector as EgressSelectorConfiguration;
}

describe("egress selectors", () => {
  it("are as kube-apiserver accepts them, and send nothing but the cluster's traffic through", () => {
    const files = readdirSync(SELECTORS);
    assert.deepEqual(files.sort(), Object.keys(SERVERS_BY_SELECTOR).sort());
    for (const file of files) {
      const { egressSelections } = readSelector(file);
      assert.deepEqual(
        egressSelections.map(({ name, connection }) => [
          name,
          connection.proxyProtocol === "Direct",
        ]),
        [
          ["cluster", false],
          ["controlplane", true],
          ["etcd", true],
        ],
      );
    }
  });

  for (const [file, folders] of Object.entries(SERVERS_BY_SELECTOR)) {
    it(`${file} is for where ${folders.join(", ")} listen`, { skip: NO_KUBECTL }, async () => {
      const { connection } = readSelector(file).egressSelections[0]!;
      const expected = expectedFrontendFlags(connection);
      for (const folder of folders) {
        const servers = workloadsOf(await render(folder)).filter(({ name }) => {
          return name === "konnectivity-server";
        });
        assert.equal(servers.length, 1);
        const args = servers[0]!.spec.containers[0]!.args ?? [];
        for (const flag of expected) assert.ok(args.includes(flag), `${folder}: no ${flag}`);
      }
    });
  }
});

function expectedFrontendFlags({
  proxyProtocol,
  transport,
}: EgressSelectorConfiguration["egressSelections"][number]["connection"]): string[] {
  const mode = `--mode=${proxyProtocol === "GRPC" ? "grpc" : "http-connect"}`;
  if (transport?.uds !== undefined) {
    return [mode, `--uds-name=${transport.uds.udsName}`, "--server-port=0"];
  }
  const { hostname, port } = new URL(transport?.tcp?.url ?? "");
  return [mode, `--server-bind-address=${hostname}`, `--server-port=${port}`];
}

const PATCHES = `${MANIFESTS}/control-plane/patches`;

describe("the patch of kube-apiserver", () => {
  it("is one that kubeadm takes: TARGET[SUFFIX]+json.yaml", () => {
    assert.deepEqual(readdirSync(PATCHES), ["kube-apiserver+json.yaml"]);
  });

  it(
    "makes a pod that reads an egress selector and sees the socket",
    { skip: NO_KUBECTL },
    async () => {
      const pod = await patched("kube-apiserver+json.yaml");
      assert.deepEqual(kubernetesProblems(pod as Pod & { apiVersion: string; kind: string }), []);
      const { containers, volumes = [] } = pod.spec!;
      const [apiserver] = containers;
      const selectorPath = apiserver?.command
        ?.find((argument) => argument.startsWith("--egress-selector-config-file="))
        ?.split("=")[1];
      assert.equal(selectorPath, "/etc/kubernetes/konnectivity-server-config/egress-selector.yaml");

      const folders = new Map(volumes.map(({ name, hostPath }) => [name, hostPath?.path]));
      const mounts = apiserver?.volumeMounts ?? [];
      for (const { name, mountPath } of mounts) assert.equal(folders.get(name), mountPath);
      const isMounted = (path: string): boolean => {
        return mounts.some(({ mountPath }) => path.startsWith(`${mountPath}/`));
      };
      assert.ok(isMounted(selectorPath));
      for (const file of readdirSync(SELECTORS)) {
        for (const path of pathsOf(readSelector(file))) assert.ok(isMounted(path), path);
      }
    },
  );
});

/** A static pod as kubeadm writes it, as far as the patch minds, with the patch applied. */
async function patched(patch: string): Promise<Pod> {
  const { stdout } = await promisify(execFile)(
    "kubectl",
    [
      ...["patch", "--local", "--type=json", "-o", "json"],
      ...["-f", new URL("../support/fixtures/kube-apiserver.yaml", import.meta.url).pathname],
      ...["--patch-file", `${PATCHES}/${patch}`],
    ],
    { timeout: 30_000 },
  );
  return JSON.parse(stdout) as Pod;
}

function pathsOf({ egressSelections }: EgressSelectorConfiguration): string[] {
  return egressSelections.flatMap(({ connection: { transport } }) => {
    if (transport?.uds !== undefined) return [transport.uds.udsName];
    return Object.values(transport?.tcp?.tlsConfig ?? {});
  });
}

interface KindCluster {
  readonly nodes: readonly {
    readonly role: string;
    readonly extraMounts?: readonly { readonly hostPath: string; readonly containerPath: string }[];
    readonly kubeadmConfigPatches?: readonly string[];
  }[];
}

describe("the kind cluster", () => {
  it("mounts files that are there, to where the apiserver's patch looks for them", () => {
    const cluster = parse(readFileSync(`${MANIFESTS}/kind/cluster.yaml`, "utf8")) as KindCluster;
    const controlPlane = cluster.nodes.find(({ role }) => role === "control-plane");
    const mounts = controlPlane?.extraMounts ?? [];
    for (const { hostPath } of mounts) {
      assert.ok(existsSync(new URL(`../../${hostPath}`, import.meta.url)), hostPath);
    }
    const [kubeadm] = (controlPlane?.kubeadmConfigPatches ?? []).map((patch) => {
      return parse(patch) as { readonly patches?: { readonly directory?: string } };
    });
    const targets = mounts.map(({ containerPath }) => containerPath);
    assert.deepEqual(targets, [
      "/etc/kubernetes/konnectivity-server-config/egress-selector.yaml",
      kubeadm?.patches?.directory,
    ]);
  });
});
