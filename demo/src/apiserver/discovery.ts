import { KUBERNETES_VERSION } from "../cluster/objects.ts";

/** Answers that are always the same: how kubectl finds out what there is. */
export const DISCOVERY: Readonly<Record<string, object>> = {
  "/version": {
    major: "1",
    minor: "32",
    gitVersion: `${KUBERNETES_VERSION}+reachback.demo`,
    gitCommit: "",
    gitTreeState: "clean",
    buildDate: "1970-01-01T00:00:00Z",
    goVersion: "",
    compiler: "",
    platform: "linux/amd64",
  },
  "/api": { kind: "APIVersions", versions: ["v1"] },
  "/apis": { kind: "APIGroupList", apiVersion: "v1", groups: [] },
  "/api/v1": {
    kind: "APIResourceList",
    groupVersion: "v1",
    resources: [
      resource("nodes", "Node", false, ["no"]),
      resource("nodes/proxy", "NodeProxyOptions", false),
      resource("pods", "Pod", true, ["po"]),
      resource("pods/attach", "PodAttachOptions", true),
      resource("pods/exec", "PodExecOptions", true),
      resource("pods/log", "Pod", true),
      resource("pods/portforward", "PodPortForwardOptions", true),
      resource("pods/proxy", "PodProxyOptions", true),
      resource("services", "Service", true, ["svc"]),
      resource("services/proxy", "ServiceProxyOptions", true),
    ],
  },
};

function resource(name: string, kind: string, namespaced: boolean, shortNames?: string[]): object {
  const isSubresource = name.includes("/");
  return {
    name,
    singularName: isSubresource ? "" : kind.toLowerCase(),
    namespaced,
    kind,
    verbs: isSubresource ? ["get", "create"] : ["get", "list"],
    ...(shortNames === undefined ? {} : { shortNames }),
  };
}
