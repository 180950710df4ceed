import { join } from "node:path";
import type { TestContext } from "node:test";
import type { ClientOptions } from "@reachback/client";
import { startApiserver } from "../../demo/src/apiserver/apiserver.ts";
import type { Cluster } from "../../demo/src/cluster/cluster.ts";
import { startKubelet } from "../../demo/src/kubelet/kubelet.ts";
import type { TestServer } from "./cluster.ts";
import { temporaryFolder } from "./cluster.ts";
import { freePorts } from "./free-ports.ts";
import { Kubectl } from "./kubectl.ts";
import { createTestPki } from "./pki.ts";
import type { TestCertificate } from "./pki.ts";

// The demo's apiservers and kubelets, for the real kubectl, around a server and agents of the test.

/** The frontends that the suites with kubectl go through; each has an apiserver of its own. */
export const FRONTENDS = ["gRPC over a Unix socket", "HTTP CONNECT over mutual TLS"] as const;
export type FrontendName = (typeof FRONTENDS)[number];

export interface DemoApiservers {
  /** kubectl for the apiserver at each frontend. */
  readonly kubectl: Readonly<Record<FrontendName, Kubectl>>;
  /** What they have logged. */
  readonly log: readonly string[];
}

/** Start an apiserver at each of the two frontends. */
export async function startApiservers(
  t: TestContext,
  cluster: Cluster,
  server: TestServer,
): Promise<DemoApiservers> {
  const pki = createTestPki();
  const folder = temporaryFolder(t);
  const log: string[] = [];
  const certificate = pki.serverFrontend;
  const start = async (frontend: ClientOptions): Promise<Kubectl> => {
    const [port = 0] = await freePorts(t, 1);
    const kubeconfigPath = join(folder, `kubeconfig-${frontend.protocol}`);
    const apiserver = await startApiserver(
      {
        cluster,
        frontend,
        bindAddress: "127.0.0.1",
        port,
        certPath: certificate.certPath,
        keyPath: certificate.keyPath,
        caPath: pki.frontendCa.certPath,
        kubeletCaPath: pki.kubeletCa.certPath,
        kubeletClientCertPath: pki.kubeletClient.certPath,
        kubeletClientKeyPath: pki.kubeletClient.keyPath,
        kubeconfigPath,
        advertisedUrl: `https://127.0.0.1:${port}`,
      },
      (event, fields) => log.push(JSON.stringify({ event, ...fields })),
    );
    t.after(() => {
      apiserver.stop();
    });
    return new Kubectl(t, folder, kubeconfigPath);
  };
  const tls = {
    caPath: pki.frontendCa.certPath,
    certPath: pki.frontendClient.certPath,
    keyPath: pki.frontendClient.keyPath,
  };
  const [grpc, connect] = await Promise.all([
    start({ protocol: "grpc", address: { kind: "unix", path: server.grpcPath } }),
    start({
      protocol: "http-connect",
      address: { kind: "tcp", host: "127.0.0.1", port: server.connectPort },
      tls,
    }),
  ]);
  return {
    kubectl: { "gRPC over a Unix socket": grpc, "HTTP CONNECT over mutual TLS": connect },
    log,
  };
}

/** Start the kubelet of a node, with its containers. */
export async function startDemoKubelet(
  t: TestContext,
  cluster: Cluster,
  nodeName: string,
  certificate: TestCertificate = createTestPki().kubelet,
): Promise<void> {
  const kubelet = await startKubelet(
    {
      cluster,
      nodeName,
      bindAddress: "127.0.0.1",
      certPath: certificate.certPath,
      keyPath: certificate.keyPath,
      clientCaPath: createTestPki().kubeletCa.certPath,
    },
    () => undefined,
  );
  t.after(() => {
    kubelet.stop();
  });
}
