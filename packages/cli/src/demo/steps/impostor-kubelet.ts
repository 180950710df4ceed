import type { DemoStep } from "../demo-step.ts";
import { POD_LIST_PATH } from "../endpoints/demo-kubelet.ts";

/** What Node says of a certificate whose CA it does not know. */
const UNKNOWN_CA_CODES = ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", "SELF_SIGNED_CERT_IN_CHAIN"];

/**
 * A request to what claims to be a kubelet, by a certificate that says so, signed by a CA that is
 * called as the right one: the apiserver notices, because TLS is between the two.
 */
export const impostorKubelet: DemoStep = {
  title: "impostor kubelet refused",
  frontends: "gRPC",
  nodes: ["node-b"],
  expected: "the apiserver to refuse its certificate, because of the CA",
  programs: ["server", "node-b", "impostor"],
  run: async (lab, signal) => {
    const url = `https://${lab.plan.endpoint("node-b", "impostor")}${POD_LIST_PATH}`;
    let status: number;
    try {
      ({ status } = await lab.apiserver.get("gRPC", url, signal));
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException;
      if (!UNKNOWN_CA_CODES.includes(code)) throw error;
      return `its certificate is not signed by the kubelets' CA (${code})`;
    }
    throw new Error(`it was accepted, and answered ${status}`);
  },
};
