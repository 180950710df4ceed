import assert from "node:assert/strict";
import { test } from "node:test";
import type { Cluster } from "../../demo/src/cluster/cluster.ts";
import { startCluster } from "../support/cluster.ts";
import { FRONTENDS, startApiservers, startDemoKubelet } from "../support/demo-cluster.ts";
import { freePorts } from "../support/free-ports.ts";
import { kubectlMissing } from "../support/kubectl.ts";
import { createTestPki } from "../support/pki.ts";
import type { TestCertificate } from "../support/pki.ts";

const HOUR_MS = 60 * 60 * 1000;

/** What is wrong with a kubelet's certificate, by the name of its node, and what kubectl must say. */
const KUBELETS: Readonly<
  Record<string, { readonly certificate: () => TestCertificate; readonly error: RegExp }>
> = {
  "wrong-ca": {
    certificate: () => issue({ ca: createTestPki().createCa("kubelet CA") }),
    error: /wrong CA: the server's certificate is not signed by an authority in our CA file/,
  },
  expired: {
    certificate: () => issue({ notAfter: new Date(Date.now() - HOUR_MS / 2) }),
    error: /the server's certificate, or its authority's, has expired \(CERT_HAS_EXPIRED\)/,
  },
  "wrong-name": {
    certificate: () => issue({ sans: ["node-b.example", "10.0.0.7"] }),
    error: /wrong name: expected 127\.0\.0\.1, the server's certificate is for .*node-b\.example/,
  },
};

const VERBS: Readonly<Record<string, (node: string) => readonly string[]>> = {
  logs: (node) => ["logs", "--follow", node],
  exec: (node) => ["exec", node, "--", "true"],
  attach: (node) => ["attach", node],
  "port-forward": (node) => ["port-forward", `pod/${node}`, ":80"],
  proxy: (node) => ["get", "--raw", `/api/v1/nodes/${node}/proxy/healthz`],
};

test("the real kubectl, with an impostor of a kubelet", { skip: kubectlMissing }, async (t) => {
  const names = Object.keys(KUBELETS);
  const ports = await freePorts(t, names.length);
  const cluster: Cluster = {
    nodes: names.map((name, index) => ({
      name,
      address: "127.0.0.1",
      kubeletPort: ports[index]!,
    })),
    pods: names.map((name) => ({
      name,
      node: name,
      ip: "127.0.0.1",
      ports: [80],
      container: { command: ["sleep", "600"] },
    })),
    services: [],
  };
  const server = await startCluster(t);
  const { kubectl } = await startApiservers(t, cluster, server);
  for (const [name, { certificate }] of Object.entries(KUBELETS)) {
    await startDemoKubelet(t, cluster, name, certificate());
  }

  for (const frontend of FRONTENDS) {
    for (const [verb, argsFor] of Object.entries(VERBS)) {
      await t.test(`through ${frontend}: ${verb} is refused, and says why`, async () => {
        await Promise.all(
          Object.entries(KUBELETS).map(async ([name, { error }]) => {
            const { code, stdout, stderr } = await kubectl[frontend].run(argsFor(name));
            assert.equal(code, 1, stdout);
            assert.match(stderr, error);
          }),
        );
      });
    }
  }
});

function issue(details: {
  readonly ca?: TestCertificate;
  readonly notAfter?: Date;
  readonly sans?: readonly string[];
}): TestCertificate {
  const { ca = createTestPki().kubeletCa, sans = ["127.0.0.1"], ...validity } = details;
  return createTestPki().issue({ ca, sans, commonName: "system:node:kubelet", ...validity });
}
