import { isIP } from "node:net";
import { formatGoDuration, goQuote, splitHostPort } from "@reachback/common";
import type { ParsedFlags } from "@reachback/common";
import { parseServerAddress } from "../servers/server-address.ts";
import type { ServerAddress } from "../servers/server-address.ts";
import type { AGENT_FLAGS } from "./agent-flags.ts";

type Values = ParsedFlags<typeof AGENT_FLAGS>["values"];

/** How hosts lead to servers; see `--server-discovery`. */
const DISCOVERIES = ["balancer", "list", "dns"] as const;
export type ServerDiscovery = (typeof DISCOVERIES)[number];

const MAX_PORT = 65_535;

/** The hosts of `--proxy-server-host` with their ports; those that make sense. */
export function chosenServers(values: Values): ServerAddress[] {
  return values["proxy-server-host"].flatMap((text) => {
    const address = parseServerAddress(text, values["proxy-server-port"]);
    return typeof address === "string" ? [] : [address];
  });
}

export function chosenDiscovery(values: Values): ServerDiscovery {
  const chosen = DISCOVERIES.find((discovery) => discovery === values["server-discovery"]);
  return chosen ?? (values["proxy-server-host"].length > 1 ? "list" : "balancer");
}

/** How many servers must have a tunnel before the agent is ready. */
export function chosenReadyMinServers(values: Values): number | "all" {
  const text = values["ready-min-servers"];
  if (text === "all") return "all";
  return text === "one" ? 1 : Number(text);
}

/** What is wrong with the flags that say where servers are and how many there must be. */
export function serverFlagProblems(values: Values): string[] {
  return [
    ...hostProblems(values),
    ...discoveryProblems(values),
    ...resolverProblems(values),
    ...readinessProblems(values),
  ];
}

function hostProblems(values: Values): string[] {
  return values["proxy-server-host"].flatMap((text) => {
    const address = parseServerAddress(text, values["proxy-server-port"]);
    return typeof address === "string" ? [address] : [];
  });
}

function discoveryProblems(values: Values): string[] {
  const discovery = values["server-discovery"];
  const problems: string[] = [];
  if (!["", ...DISCOVERIES].includes(discovery)) {
    problems.push(`server-discovery must be one of ${DISCOVERIES.join(", ")}, got ${discovery}`);
  }
  if (values["count-server-leases"] && chosenDiscovery(values) !== "balancer") {
    problems.push(
      `count-server-leases needs server-discovery=balancer: with ${chosenDiscovery(values)} the addresses are the servers`,
    );
  }
  const interval = values["server-lookup-interval"];
  if (interval < 1_000) {
    problems.push(`server-lookup-interval must be >= 1s, got ${formatGoDuration(interval)}`);
  }
  return problems;
}

function resolverProblems(values: Values): string[] {
  return values["server-resolver"]
    .filter((text) => !isNameServer(text))
    .map((text) => `server-resolver ${goQuote(text)} must be an IP address, or IP:port`);
}

function isNameServer(text: string): boolean {
  if (isIP(text) !== 0) return true;
  const parts = splitHostPort(text);
  if (typeof parts === "string" || isIP(parts.host) === 0) return false;
  const port = /^\d{1,5}$/.test(parts.port) ? Number(parts.port) : 0;
  return port > 0 && port <= MAX_PORT;
}

function readinessProblems(values: Values): string[] {
  const text = values["ready-min-servers"];
  if (["one", "all"].includes(text) || /^[1-9]\d{0,5}$/.test(text)) return [];
  return [`ready-min-servers must be one, all or a number from 1, got ${text}`];
}
