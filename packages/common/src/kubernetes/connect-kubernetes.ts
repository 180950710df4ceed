import type { KubernetesClientPorts } from "./kubernetes-client.ts";
import { KubernetesClient } from "./kubernetes-client.ts";
import { inClusterAccess } from "./in-cluster.ts";
import { kubeconfigAccess } from "./kubeconfig.ts";

export interface KubernetesPorts extends KubernetesClientPorts {
  /** Where a pod's service account is. @defaultValue where Kubernetes puts it */
  readonly serviceAccountFolder?: string;
}

/**
 * A client of the apiserver that `--kubeconfig` names, or of the cluster whose pod this is. Nothing
 * is sent yet.
 *
 * @param kubeconfigPath - Empty for the pod's own service account.
 * @throws {ApiAccessError} if that says not where the apiserver is, or not as whom to go there.
 */
export async function connectKubernetes(
  kubeconfigPath: string,
  ports: KubernetesPorts,
): Promise<KubernetesClient> {
  const access =
    kubeconfigPath === ""
      ? inClusterAccess(ports.env, ports.serviceAccountFolder)
      : await kubeconfigAccess(kubeconfigPath);
  return new KubernetesClient(access, ports);
}
