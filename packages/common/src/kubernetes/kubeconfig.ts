import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { systemErrorText } from "../system-error-text.ts";
import type { ApiAccess, ExecPlugin, TextSource } from "./api-access.ts";
import { ApiAccessError } from "./api-access.ts";
import { listOf, recordOf, textOf } from "./json.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * Read a kubeconfig and resolve its current context: cluster and user in all forms that client-go
 * knows, but for `proxy-url` and `auth-provider` (gone from Kubernetes 1.26), which are refused.
 * Relative paths are relative to the file. Certificates and tokens in files are read when needed.
 *
 * @throws {ApiAccessError} naming the file and what is wrong in it.
 */
export async function kubeconfigAccess(path: string): Promise<ApiAccess> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    const reason = systemErrorText(error as NodeJS.ErrnoException);
    throw new ApiAccessError(`cannot read the kubeconfig ${path}: ${reason}`, { cause: error });
  }
  // Only those who have a kubeconfig pay for its parser.
  const { parse } = await import("yaml");
  try {
    return accessFrom(recordOf(parse(text)), dirname(resolve(path)));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ApiAccessError(`kubeconfig ${path}: ${reason}`, { cause: error });
  }
}

function accessFrom(config: Fields, folder: string): ApiAccess {
  const contextName = textOf(config["current-context"]);
  if (contextName === "") {
    throw new Error("it has no current-context: set one with kubectl config use-context");
  }
  const context = namedEntry(config, "contexts", "context", contextName);
  const cluster = namedEntry(config, "clusters", "cluster", textOf(context["cluster"]));
  const userName = textOf(context["user"]);
  const user = userName === "" ? {} : namedEntry(config, "users", "user", userName);
  return { ...clusterPart(cluster, folder), ...userPart(user, folder) };
}

/** The `kind` of the entry of `list` with this name. */
function namedEntry(config: Fields, list: string, kind: string, name: string): Fields {
  const entry = listOf(config[list])
    .map(recordOf)
    .find((candidate) => candidate["name"] === name);
  if (entry === undefined) throw new Error(`it has no ${kind} named "${name}"`);
  return recordOf(entry[kind]);
}

type ClusterPart = Pick<ApiAccess, "server" | "ca" | "skipsTlsVerification" | "tlsServerName">;

function clusterPart(cluster: Fields, folder: string): ClusterPart {
  const server = textOf(cluster["server"]);
  if (!/^https?:\/\/[^/]/.test(server) || !URL.canParse(server)) {
    throw new Error(`the cluster's server "${server}" is not an http or https URL`);
  }
  if (textOf(cluster["proxy-url"]) !== "") {
    throw new Error("the cluster's proxy-url is not supported: connect to the apiserver directly");
  }
  const skipsTlsVerification = cluster["insecure-skip-tls-verify"] === true;
  const ca = sourceOf(cluster, "certificate-authority", folder);
  if (skipsTlsVerification && ca !== undefined) {
    throw new Error("the cluster has both a certificate-authority and insecure-skip-tls-verify");
  }
  return {
    server: server.replace(/\/+$/, ""),
    ca,
    skipsTlsVerification,
    tlsServerName: textOf(cluster["tls-server-name"]) || undefined,
  };
}

type UserPart = Omit<ApiAccess, keyof ClusterPart>;

function userPart(user: Fields, folder: string): UserPart {
  if (user["auth-provider"] !== undefined) {
    throw new Error("the user's auth-provider is gone from Kubernetes 1.26: use exec instead");
  }
  const cert = sourceOf(user, "client-certificate", folder);
  const key = sourceOf(user, "client-key", folder);
  if ((cert === undefined) !== (key === undefined)) {
    throw new Error("the user has one of client-certificate and client-key but not the other");
  }
  const tokenPath = textOf(user["tokenFile"]);
  const token = textOf(user["token"]);
  const username = textOf(user["username"]);
  return {
    clientCertificate: cert === undefined || key === undefined ? undefined : { cert, key },
    // As client-go, the file goes first.
    token:
      tokenPath !== "" ? { path: resolve(folder, tokenPath) } : token ? { text: token } : undefined,
    basic: username === "" ? undefined : { username, password: textOf(user["password"]) },
    exec: user["exec"] === undefined ? undefined : execPluginFrom(recordOf(user["exec"]), folder),
    impersonation: impersonationOf(user),
  };
}

/** `name-data`, in base64, or else the file that `name` is the path of. */
function sourceOf(fields: Fields, name: string, folder: string): TextSource | undefined {
  const data = textOf(fields[`${name}-data`]);
  if (data !== "") return { text: Buffer.from(data, "base64").toString("utf8") };
  const path = textOf(fields[name]);
  return path === "" ? undefined : { path: resolve(folder, path) };
}

const EXEC_VERSIONS = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

function execPluginFrom(exec: Fields, folder: string): ExecPlugin {
  const apiVersion = textOf(exec["apiVersion"]);
  const command = textOf(exec["command"]);
  if (command === "") throw new Error("the user's exec has no command");
  if (!EXEC_VERSIONS.includes(apiVersion)) {
    throw new Error(
      `the user's exec has apiVersion "${apiVersion}", known are ${EXEC_VERSIONS.join(" and ")}`,
    );
  }
  if (exec["interactiveMode"] === "Always") {
    throw new Error("the user's exec wants a terminal (interactiveMode Always), here is none");
  }
  const env = listOf(exec["env"])
    .map(recordOf)
    .map((entry) => [textOf(entry["name"]), textOf(entry["value"])] as const);
  return {
    apiVersion,
    command: command.includes("/") ? resolve(folder, command) : command,
    args: listOf(exec["args"]).map(textOf),
    env: Object.fromEntries(env),
    providesClusterInfo: exec["provideClusterInfo"] === true,
    installHint: textOf(exec["installHint"]),
  };
}

function impersonationOf(user: Fields): readonly (readonly [string, string])[] {
  const headers: (readonly [string, string])[] = [];
  const add = (name: string, value: unknown) => {
    if (textOf(value) !== "") headers.push([name, textOf(value)]);
  };
  add("Impersonate-User", user["as"]);
  add("Impersonate-Uid", user["as-uid"]);
  for (const group of listOf(user["as-groups"])) add("Impersonate-Group", group);
  for (const [key, values] of Object.entries(recordOf(user["as-user-extra"]))) {
    const name = `Impersonate-Extra-${encodeURIComponent(key)}`;
    for (const value of listOf(values)) add(name, value);
  }
  return headers;
}
