import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getuid } from "node:process";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import type { ConfigMap, Secret } from "kubernetes-types/core/v1.d.ts";
import { parse } from "yaml";
import { Client } from "@reachback/client";
import { temporaryFolder } from "../support/cluster.ts";
import { docker } from "../support/compose.ts";
import { blocksIn, commandsIn, readDocument, sectionOf } from "../support/documents.ts";
import { CHECKOUT } from "../support/executable.ts";
import { httpBody } from "../support/http-body.ts";
import {
  serviceAccountStatus,
  startKubernetesApi,
  writeKubeconfig,
} from "../support/kubernetes-api.ts";
import type { KubernetesApi } from "../support/kubernetes-api.ts";
import {
  MANIFESTS,
  NO_KUBECTL,
  readManifests,
  renderFolder,
  workloadsOf,
} from "../support/manifests.ts";
import type { ManifestObject } from "../support/manifests.ts";
import { createTestPki } from "../support/pki.ts";
import { startPod } from "../support/pods.ts";
import type { Files, Node, RunningPod } from "../support/pods.ts";

// The commands of docs/install.md, as they stand there, below a folder that stands in for a
// control-plane node; then the pods of the manifests as containers of the built images, with a test
// double of the apiserver, which asks for connections as its egress selector says.

/** Why these tests cannot run here, or false. */
export const manifestsMissing: string | false =
  NO_KUBECTL !== false
    ? NO_KUBECTL
    : getuid?.() !== 0 && "only root can give files to the users of containers";

const SERVER_NAME = "konnectivity-server.kube-system.svc.cluster.local";
const AGENT_USER = "system:serviceaccount:kube-system:konnectivity-agent";
const INSTALL = readDocument("docs/install.md");

export async function startManifests(t: TestContext): Promise<void> {
  const network = `reachback-manifests-${process.pid}`;
  await docker("network", "create", network);
  t.after(() => docker("network", "rm", network));
  const gateway = ["--format", "{{(index .IPAM.Config 0).Gateway}}"];
  const api = await startKubernetesApi(t, await docker("network", "inspect", ...gateway, network));
  api.review = (token) =>
    token === "agent-token"
      ? serviceAccountStatus(AGENT_USER, ["system:konnectivity-server"])
      : { authenticated: false };
  const root = temporaryFolder(t);
  writeControlPlane(t, root, api);
  const objects = await followInstructions(root);
  const node: Node = {
    root,
    network,
    objects,
    serviceAccount: { token: "caller-token", "ca.crt": createTestPki().kubeletCa.cert },
    projectedToken: "agent-token",
    apiserver: new URL(api.url),
  };

  const selectors = `${MANIFESTS}/control-plane/egress-selector`;
  await t.test("server as a static pod, by the instructions", async (t) => {
    const server = readManifests(join(root, "etc/kubernetes/manifests/konnectivity-server.yaml"));
    const rest = await renderAsUser(root, "static-pod");
    await carries(t, node, [...server, ...rest], `${selectors}/grpc-uds.yaml`);
    const reviewers = api.calls.map(({ commonName }) => commonName);
    assert.ok(reviewers.includes("system:konnectivity-server"));
  });

  for (const [overlay, selector] of [
    ["ha", `${selectors}/grpc-uds.yaml`],
    ["single-http-connect", `${selectors}/http-connect-uds.yaml`],
    // The instructions have put it there.
    [
      "single-mtls-tcp",
      join(root, "etc/kubernetes/konnectivity-server-config/egress-selector.yaml"),
    ],
  ] as const) {
    await t.test(`overlays/${overlay}`, async (t) => {
      await carries(t, node, await renderAsUser(root, overlay), selector);
    });
  }
  assert.match(api.leases.names().join(), /^konnectivity-proxy-server-/);

  for (const [example, selector] of [
    ["kind", `${selectors}/grpc-uds.yaml`],
    ["kubernetes", `${selectors}/http-connect-uds.yaml`],
  ] as const) {
    await t.test(`upstream's examples/${example}`, async (t) => {
      const fixture = new URL(`../support/fixtures/upstream-${example}.yaml`, import.meta.url);
      await carries(t, node, readManifests(fixture.pathname), selector);
    });
  }
}

/** What kubeadm has put onto a control-plane node. Its CA is what the test's apiserver has. */
function writeControlPlane(t: TestContext, root: string, api: KubernetesApi): void {
  const pki = createTestPki();
  const { kubeletCa: ca } = pki;
  const apiserver = pki.issue({ ca, sans: [SERVER_NAME], usage: "server" });
  const kubernetes = join(root, "etc/kubernetes");
  mkdirSync(join(kubernetes, "pki"), { recursive: true });
  mkdirSync(join(kubernetes, "manifests"));
  mkdirSync(join(root, "root"));
  copyFileSync(ca.certPath, join(kubernetes, "pki/ca.crt"));
  copyFileSync(ca.keyPath, join(kubernetes, "pki/ca.key"));
  copyFileSync(apiserver.certPath, join(kubernetes, "pki/apiserver.crt"));
  copyFileSync(apiserver.keyPath, join(kubernetes, "pki/apiserver.key"));
  const embeddedCa = { "certificate-authority-data": Buffer.from(ca.cert).toString("base64") };
  const admin = writeKubeconfig(t, api, undefined, embeddedCa);
  copyFileSync(admin, join(kubernetes, "admin.conf"));
  const fixture = new URL("../support/fixtures/kube-apiserver.yaml", import.meta.url);
  copyFileSync(fixture, join(kubernetes, "manifests/kube-apiserver.yaml"));
}

/** What needs a cluster, a registry or kind. */
const NOT_HERE = /^(kubectl (apply|-n kube-system rollout)|docker|kind) /;

/** Do what docs/install.md says for a static pod; returns the Secrets and ConfigMaps of it. */
async function followInstructions(root: string): Promise<Record<string, Files>> {
  const checkout = join(root, "reachback");
  mkdirSync(checkout);
  for (const name of ["deploy", "node_modules"]) {
    symlinkSync(join(CHECKOUT, name), join(checkout, name));
  }
  const [kubeadm = ""] = sectionOf(INSTALL, "## kubeadm").split("\n### ");
  const commands = [
    sectionOf(INSTALL, "## Certificates"),
    sectionOf(INSTALL, "### The server as a static pod"),
    kubeadm,
    sectionOf(INSTALL, "## HTTP CONNECT and mutual TLS"),
  ].flatMap(commandsIn);
  const script = commands
    .filter((command) => !NOT_HERE.test(command))
    .map((command) => command.replace(/ \/(etc|root)\//g, ` ${root}/$1/`))
    .map((command) => command.replace(/=\/etc\//g, `=${root}/etc/`))
    .map((command) => {
      if (!/^kubectl .*\bcreate /.test(command)) return command;
      return `{ ${command} --dry-run=client -o yaml; echo ---; } >> objects.yaml`;
    });
  const bash = ["-euxo", "pipefail", "-c", script.join("\n")];
  await promisify(execFile)("bash", bash, { cwd: checkout, timeout: 60_000 });
  return Object.fromEntries(
    readManifests(join(checkout, "objects.yaml")).map((object) => [
      object.metadata.name,
      filesOf(object),
    ]),
  );
}

function filesOf(object: ManifestObject): Files {
  if (object.kind === "ConfigMap") return (object as ConfigMap).data ?? {};
  const encoded = Object.entries((object as Secret).data ?? {});
  return Object.fromEntries(
    encoded.map(([name, text]) => [name, Buffer.from(text, "base64").toString()]),
  );
}

/** An overlay with one's own images, as docs/install.md has it: `my-cluster`. */
async function renderAsUser(root: string, overlay: string): Promise<ManifestObject[]> {
  const kustomization = blocksIn(sectionOf(INSTALL, "## Images"), "yaml").join("");
  assert.match(kustomization, /\/overlays\/single\n/);
  const folder = join(root, "my-cluster");
  mkdirSync(folder, { recursive: true });
  const text = kustomization.replace(/\/overlays\/single\n/, `/overlays/${overlay}\n`);
  writeFileSync(join(folder, "kustomization.yaml"), text);
  return renderFolder(folder);
}

/** Run server and agent, wait for their probes, and ask for the agent's health through the tunnel. */
async function carries(
  t: TestContext,
  node: Node,
  objects: readonly ManifestObject[],
  selectorPath: string,
): Promise<void> {
  const workloads = workloadsOf(objects);
  const named = (name: string) => {
    const found = workloads.find((workload) => workload.name === name);
    assert.ok(found, `there is no ${name}`);
    return found;
  };
  const server = await startPod(t, named("konnectivity-server"), node, SERVER_NAME);
  const agent = await startPod(t, named("konnectivity-agent"), node, "konnectivity-agent");
  await agent.ready();
  await server.ready();

  const { egressSelections } = parse(readFileSync(selectorPath, "utf8")) as EgressSelector;
  const { proxyProtocol, transport } = egressSelections[0]!.connection;
  if (transport.tcp !== undefined) {
    assert.match(await answerOverMutualTls(node, server, transport.tcp), /^HTTP\/1\.1 200 .*ok$/s);
    return;
  }
  const client = new Client({
    protocol: proxyProtocol === "GRPC" ? "grpc" : "http-connect",
    address: { kind: "unix", path: join(node.root, transport.uds.udsName) },
  });
  t.after(() => {
    client.close();
  });
  assert.equal(
    await httpBody("http://127.0.0.1:8093/healthz", { agent: client.httpAgent() }),
    "ok",
  );
}

interface EgressSelector {
  readonly egressSelections: readonly {
    readonly connection: {
      readonly proxyProtocol: "GRPC" | "HTTPConnect";
      readonly transport:
        | { readonly uds: { readonly udsName: string }; readonly tcp?: undefined }
        | { readonly tcp: TcpTransport };
    };
  }[];
}

interface TcpTransport {
  readonly url: string;
  readonly tlsConfig: Readonly<Record<"caBundle" | "clientCert" | "clientKey", string>>;
}

/** The agent's health, asked for in the server's container: this frontend is on its loopback. */
async function answerOverMutualTls(
  { root }: Node,
  server: RunningPod,
  { url, tlsConfig }: TcpTransport,
): Promise<string> {
  const pem = (path: string) => JSON.stringify(readFileSync(join(root, path), "utf8"));
  const script = `
    require("node:https")
      .request(${JSON.stringify(url)}, {
        method: "CONNECT",
        path: "127.0.0.1:8093",
        ca: ${pem(tlsConfig.caBundle)},
        cert: ${pem(tlsConfig.clientCert)},
        key: ${pem(tlsConfig.clientKey)},
      })
      .on("connect", ({ statusCode }, socket) => {
        if (statusCode !== 200) throw new Error("CONNECT: " + statusCode);
        socket.end("GET /healthz HTTP/1.0\\r\\n\\r\\n").pipe(process.stdout);
      })
      .end();`;
  return docker("exec", server.id, "node", "-e", script);
}
