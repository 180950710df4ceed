import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

export interface KubeconfigOptions {
  /** Where kubectl reaches the apiserver. */
  readonly url: string;
  /** The CA of its certificate, PEM. */
  readonly ca: Buffer;
  readonly token: string;
}

/** Write a kubeconfig, in one go and readable by its owner only. JSON, which is YAML too. */
export function writeKubeconfig(path: string, { url, ca, token }: KubeconfigOptions): void {
  const name = "reachback-demo";
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      { name, cluster: { server: url, "certificate-authority-data": ca.toString("base64") } },
    ],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace: "default" } }],
    "current-context": name,
  };
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.new`, `${JSON.stringify(config, undefined, 2)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
