import type { DemoStep } from "../demo-step.ts";
import { CLAIMED_HOSTS } from "../lab-plan.ts";
import { LOOPBACK } from "../loopback.ts";

const NO_REQUESTS = { frontends: "-", nodes: [] } as const;

const certificates: DemoStep = {
  ...NO_REQUESTS,
  title: "certificates",
  expected: "certificates",
  programs: [],
  run: async (lab) => {
    await lab.makeCertificates();
    return `3 CAs, for frontends, agents and kubelets, in ${lab.plan.certificateFolder}`;
  },
};

const endpoints: DemoStep = {
  ...NO_REQUESTS,
  title: "endpoints",
  expected: "all three to start",
  programs: ["kubelet", "pod", "impostor"],
  run: async (lab, signal) => {
    await lab.startEndpoints(signal);
    const { plan } = lab;
    const kubelet = plan.endpoint("node-a", "kubelet");
    const pod = plan.endpoint("node-b", "pod");
    const impostor = plan.endpoint("node-b", "impostor");
    return `kubelet at ${kubelet}, pod at ${pod}, impostor kubelet at ${impostor}`;
  },
};

const server: DemoStep = {
  ...NO_REQUESTS,
  title: "server",
  expected: "it to start",
  programs: ["server"],
  run: async (lab, signal) => {
    await lab.startServer(signal);
    const { plan } = lab;
    return `gRPC on ${plan.socketPath}, HTTP CONNECT by mutual TLS on ${LOOPBACK}:${plan.port("connect")}`;
  },
};

const agents: DemoStep = {
  ...NO_REQUESTS,
  title: "agents",
  expected: "both to start and to open their tunnels",
  programs: ["node-a", "node-b", "server"],
  run: async (lab, signal) => {
    await lab.startAgents(signal);
    return `node-a claims ${CLAIMED_HOSTS["node-a"]}, node-b claims ${CLAIMED_HOSTS["node-b"]}: by that the server chooses`;
  },
};

/** What has to be there first, in its order. Without any one of it the demo is over. */
export const SETUP_STEPS: readonly DemoStep[] = [certificates, endpoints, server, agents];
