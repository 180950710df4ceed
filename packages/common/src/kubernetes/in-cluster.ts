import { join } from "node:path";
import { joinHostPort } from "../net/host-port.ts";
import type { ApiAccess } from "./api-access.ts";
import { ApiAccessError } from "./api-access.ts";

/** Where a pod finds the token and the CA of its service account. */
const SERVICE_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * How a pod talks to its cluster's apiserver: by the environment and the files that Kubernetes gives
 * it.
 *
 * @throws {ApiAccessError} with client-go's words if the environment is not a pod's.
 */
export function inClusterAccess(
  env: Readonly<Record<string, string | undefined>>,
  folder = SERVICE_ACCOUNT_FOLDER,
): ApiAccess {
  const { KUBERNETES_SERVICE_HOST: host = "", KUBERNETES_SERVICE_PORT: port = "" } = env;
  if (host === "" || port === "") {
    throw new ApiAccessError(
      "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined",
    );
  }
  return {
    server: `https://${joinHostPort(host, Number(port))}`,
    ca: { path: join(folder, "ca.crt") },
    skipsTlsVerification: false,
    tlsServerName: undefined,
    clientCertificate: undefined,
    token: { path: join(folder, "token") },
    basic: undefined,
    exec: undefined,
    impersonation: [],
  };
}
