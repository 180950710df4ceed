import type { CertificateUsage } from "./issue-certificate.ts";

/**
 * The three circles of trust, each with an authority of its own and a folder of its name: who asks
 * the server for connections, which agents may join, and which kubelet is the right one.
 */
export const TRUST_DOMAINS = ["frontend", "agent", "kubelet"] as const;
export type TrustDomain = (typeof TRUST_DOMAINS)[number];

/** What one kind of leaf certificate is for, and what stands in it. */
export interface CertificateRole {
  readonly domain: TrustDomain;
  /** Also the name of its files, when it is given no other. */
  readonly usage: CertificateUsage;
  readonly organization: string | undefined;
  commonName(name: string | undefined): string;
  /** Names that are in it whatever the operator adds. */
  readonly defaultNames: readonly string[];
  readonly summary: string;
}

const LOOPBACK_NAMES = ["localhost", "127.0.0.1", "::1"];

/** The Service in front of the servers, as the usual manifests call it. */
const SERVER_NAMES = [
  ...LOOPBACK_NAMES,
  "kubernetes",
  "konnectivity-server",
  "konnectivity-server.kube-system",
  "konnectivity-server.kube-system.svc",
  "konnectivity-server.kube-system.svc.cluster.local",
];

const ROLES = {
  "frontend-server": {
    domain: "frontend",
    usage: "server",
    organization: undefined,
    commonName: (name = "reachback-server") => name,
    defaultNames: SERVER_NAMES,
    summary: "the server, to those who ask it for connections (--server-cert)",
  },
  "frontend-client": {
    domain: "frontend",
    usage: "client",
    organization: undefined,
    commonName: (name = "reachback-frontend-client") => name,
    defaultNames: [],
    summary: "an apiserver or another client, to the server",
  },
  "agent-server": {
    domain: "agent",
    usage: "server",
    organization: undefined,
    commonName: (name = "reachback-server") => name,
    defaultNames: SERVER_NAMES,
    summary: "the server, to agents (--cluster-cert)",
  },
  agent: {
    domain: "agent",
    usage: "client",
    organization: undefined,
    commonName: (name = "reachback-agent") => name,
    defaultNames: [],
    summary: "an agent, to the server (--agent-cert)",
  },
  kubelet: {
    domain: "kubelet",
    usage: "server",
    organization: "system:nodes",
    commonName: (name = "kubelet") => `system:node:${name}`,
    defaultNames: LOOPBACK_NAMES,
    summary: "a kubelet, to the apiserver",
  },
  "kubelet-client": {
    domain: "kubelet",
    usage: "client",
    organization: undefined,
    commonName: (name = "kube-apiserver-kubelet-client") => name,
    defaultNames: [],
    summary: "the apiserver, to kubelets",
  },
} as const satisfies Record<string, CertificateRole>;

export type CertificateRoleName = keyof typeof ROLES;

export const CERTIFICATE_ROLE_NAMES = Object.keys(ROLES) as readonly CertificateRoleName[];

export function certificateRole(name: CertificateRoleName): CertificateRole {
  return ROLES[name];
}
