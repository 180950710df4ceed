import type { Answer, Frontend } from "../apiserver.ts";
import type { DemoStep } from "../demo-step.ts";
import { CALLER_HEADER, POD_LIST_PATH } from "../endpoints/demo-kubelet.ts";
import type { Lab } from "../lab.ts";

/**
 * A request to a kubelet with TLS from end to end: the apiserver verifies the kubelet's certificate
 * as with `--kubelet-certificate-authority`, and the kubelet the apiserver's. Nothing between them
 * could read along.
 */
export const kubeletRequest: DemoStep = {
  title: "kubelet, TLS end to end",
  frontends: "CONNECT",
  nodes: ["node-a"],
  expected: "200, from a kubelet of the kubelets' CA, to the apiserver",
  programs: ["server", "node-a", "kubelet"],
  run: async (lab, signal) => {
    const { status, headers, certificate } = await getFromKubelet(lab, "CONNECT", signal);
    const caller = String(headers[CALLER_HEADER]);
    return `${status} from ${certificate?.subject ?? "?"}, verified against the ${certificate?.issuer ?? "?"}; it verified ${caller}`;
  },
};

/** @throws {Error} if the kubelet does not answer, or takes us for somebody else. */
export async function getFromKubelet(
  lab: Lab,
  frontend: Frontend,
  signal: AbortSignal,
): Promise<Answer> {
  const { authorities, leaves } = lab.certificates;
  const url = `https://${lab.plan.endpoint("node-a", "kubelet")}${POD_LIST_PATH}`;
  const answer = await lab.apiserver.get(frontend, url, signal);
  const { certificate } = answer;
  const isRight =
    answer.status === 200 &&
    certificate?.subject === leaves.kubelet.commonName &&
    certificate.issuer === authorities.kubelet.commonName &&
    answer.headers[CALLER_HEADER] === leaves["kubelet-client"].commonName;
  if (!isRight) {
    const from = certificate === undefined ? "no certificate" : JSON.stringify(certificate);
    const caller = String(answer.headers[CALLER_HEADER]);
    throw new Error(`${answer.status}, from ${from}, to ${caller}: ${answer.body}`);
  }
  return answer;
}
