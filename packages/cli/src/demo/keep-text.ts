import { join } from "node:path";
import { joinHostPort } from "@reachback/common";
import { LOG_PATH, POD_LIST_PATH } from "./endpoints/demo-kubelet.ts";
import type { LabCertificates } from "./lab-certificates.ts";
import { NODE_NAMES } from "./lab-plan.ts";
import type { LabPlan } from "./lab-plan.ts";
import { LOOPBACK } from "./loopback.ts";

/** What to try by hand while everything runs, where to look, and how to stop. */
export function keepText(plan: LabPlan, certificates: LabCertificates, pid: number): string {
  const requests = handMadeRequests(plan, certificates).map(
    ({ purpose, command }) => `# ${purpose}\n${command}\n`,
  );
  const metrics = [
    plan.port("serverHealth"),
    ...NODE_NAMES.map((node) => plan.healthPort(node)),
  ].map((port) => `http://${joinHostPort(LOOPBACK, port)}/metrics`);
  return `
Everything is still running. Requests to try from another terminal:

${requests.join("\n")}
Logs:     ${join(plan.logFolder, "*.log")}
Metrics:  ${metrics.join("  ")}
          (the server's, ${NODE_NAMES.map((node) => `${node}'s`).join(", ")})
Stop:     press Ctrl-C here, or run: kill ${pid}
          It ends all processes and removes ${plan.folder}
`;
}

/** A command to try in another terminal. */
interface HandMadeRequest {
  readonly purpose: string;
  /** For a POSIX shell, in any folder. */
  readonly command: string;
}

/** Requests with curl through the server's HTTP CONNECT frontend. */
function handMadeRequests(
  plan: LabPlan,
  { authorities, leaves }: LabCertificates,
): readonly HandMadeRequest[] {
  const client = leaves["frontend-client"];
  const proxy = [
    `-x https://${joinHostPort(LOOPBACK, plan.port("connect"))}`,
    `--proxy-cacert ${quoted(authorities.frontend.certPath)}`,
    `--proxy-cert ${quoted(client.certPath)} --proxy-key ${quoted(client.keyPath)}`,
  ];
  const apiserver = leaves["kubelet-client"];
  const tls = [
    `--cacert ${quoted(authorities.kubelet.certPath)}`,
    `--cert ${quoted(apiserver.certPath)} --key ${quoted(apiserver.keyPath)}`,
  ];
  const kubelet = `https://${plan.endpoint("node-a", "kubelet")}`;
  const impostor = `https://${plan.endpoint("node-b", "impostor")}`;
  return [
    {
      purpose: "the pod, through node-b",
      command: curl("-sSp", proxy, `http://${plan.endpoint("node-b", "pod")}/`),
    },
    {
      purpose: "the kubelet's list of pods, through node-a; each verifies the other's certificate",
      command: curl("-sS", [...proxy, ...tls], kubelet + POD_LIST_PATH),
    },
    {
      purpose: "the log of a container, line by line",
      command: curl("-sSN", [...proxy, ...tls], kubelet + LOG_PATH),
    },
    {
      purpose: "the impostor, whose certificate curl refuses (older ones say why only with -v)",
      command: curl("-sS", [...proxy, ...tls], impostor + POD_LIST_PATH),
    },
  ];
}

/**
 * One command of several lines. `--noproxy ''` because many environments name loopback as reached
 * without a proxy, and then curl would go there directly.
 */
function curl(flags: string, options: readonly string[], url: string): string {
  return [`curl ${flags} --noproxy ''`, ...options, quoted(url)].join(" \\\n  ");
}

/** As a single word for the shell. */
function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
