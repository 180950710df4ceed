import {
  checkAgentIdentifiers,
  formatGoDuration,
  goQuote,
  InvalidValueError,
  missingFileText,
  tlsPathProblems,
  windowProblems,
} from "@reachback/common";
import type { FileExists, ParsedFlags } from "@reachback/common";
import type { AGENT_FLAGS } from "./agent-flags.ts";
import { serverFlagProblems } from "./server-options.ts";

export type AgentFlags = ParsedFlags<typeof AGENT_FLAGS>;
type Values = AgentFlags["values"];

const PREFIX = "failed to validate agent options with";

const MAX_PORT = 65_535;
const MAX_ALPN_BYTES = 255;

/**
 * Everything that is wrong with the flags of an agent: upstream's checks, in its order and words,
 * then our own.
 */
export function agentFlagProblems(flags: AgentFlags, fileExists: FileExists): string[] {
  const { values } = flags;
  return [
    ...upstreamProblems(values, fileExists),
    ...portRangeProblems(values),
    ...alpnProblems(values),
    ...metadataProblems(values),
    ...durationProblems(values),
    ...windowProblems(flags),
    ...serverFlagProblems(values),
    ...leaseProblems(values),
  ].map((problem) => `${PREFIX} ${problem}`);
}

/** Upstream's own checks. It stops at the first, so the order is part of its behaviour. */
function upstreamProblems(values: Values, fileExists: FileExists): string[] {
  return [
    ...tlsPathProblems(
      "agent",
      {
        keyPath: values["agent-key"],
        certPath: values["agent-cert"],
        caCertPath: values["ca-cert"],
      },
      fileExists,
    ),
    ...portProblems(values),
    ...channelSizeProblems(values),
    ...contentionProfilingProblems(values),
    ...syncIntervalProblems(values),
    ...tokenPathProblems(values, fileExists),
    ...identifierProblems(values),
    ...kubeconfigProblems(values, fileExists),
    ...countSourceProblems(values),
  ];
}

const PORTS = ["proxy-server-port", "health-server-port", "admin-server-port"] as const;

/** `--health-server-port` as messages name it: `health server port`. */
function wordsOf(flag: string): string {
  return flag.replaceAll("-", " ");
}

function portProblems(values: Values): string[] {
  return PORTS.filter((flag) => values[flag] <= 0).map(
    (flag) => `${wordsOf(flag)} ${values[flag]} must be greater than 0`,
  );
}

function channelSizeProblems(values: Values): string[] {
  const size = values["xfr-channel-size"];
  return size > 0 ? [] : [`channel size ${size} must be greater than 0`];
}

function contentionProfilingProblems(values: Values): string[] {
  if (!values["enable-contention-profiling"] || values["enable-profiling"]) return [];
  return ["if --enable-contention-profiling is set, --enable-profiling must also be set"];
}

function syncIntervalProblems(values: Values): string[] {
  const interval = values["sync-interval"];
  const cap = values["sync-interval-cap"];
  if (interval <= cap) return [];
  return [
    `sync interval ${formatGoDuration(interval)} must be less than sync interval cap ${formatGoDuration(cap)}`,
  ];
}

function tokenPathProblems(values: Values, fileExists: FileExists): string[] {
  const path = values["service-account-token-path"];
  if (path === "" || fileExists(path)) return [];
  return [`error checking service account token path ${path}, got ${missingFileText(path)}`];
}

function identifierProblems(values: Values): string[] {
  try {
    checkAgentIdentifiers(values["agent-identifiers"]);
    return [];
  } catch (error) {
    if (!(error instanceof InvalidValueError)) throw error;
    return [`agent address is invalid: ${error.message}`];
  }
}

function kubeconfigProblems({ kubeconfig }: Values, fileExists: FileExists): string[] {
  if (kubeconfig === "" || fileExists(kubeconfig)) return [];
  return [
    `error checking KubeconfigPath ${goQuote(kubeconfig)}, got ${missingFileText(kubeconfig)}`,
  ];
}

function countSourceProblems(values: Values): string[] {
  const source = values["server-count-source"];
  if (["", "default", "max"].includes(source)) return [];
  return [`--server-count-source must be one of '', 'default', 'max', got ${source}`];
}

/** Upstream finds these out when it listens or dials. */
function portRangeProblems(values: Values): string[] {
  return PORTS.filter((flag) => values[flag] > MAX_PORT).map(
    (flag) => `${wordsOf(flag)} ${values[flag]} must not be greater than ${MAX_PORT}`,
  );
}

/** The list without `[]`, which is how a program that passes all flags on spells "empty". */
export function chosenAlpnProtocols(values: Values): string[] {
  return values["alpn-proto"].filter((protocol) => protocol !== "[]");
}

function alpnProblems(values: Values): string[] {
  return chosenAlpnProtocols(values)
    .filter((protocol) => protocol === "" || Buffer.byteLength(protocol) > MAX_ALPN_BYTES)
    .map((protocol) => {
      return `alpn-proto ${goQuote(protocol)} must be 1 to ${MAX_ALPN_BYTES} bytes long`;
    });
}

/** What servers are told goes into headers, which hold nothing else: every tunnel would be refused. */
function metadataProblems(values: Values): string[] {
  return (["agent-id", "agent-identifiers"] as const)
    .filter((flag) => !/^(?! )[\x20-\x7e]*(?<! )$/.test(values[flag]))
    .map((flag) => {
      return `${flag} ${goQuote(values[flag])} must be printable ASCII without spaces at its ends`;
    });
}

function durationProblems(values: Values): string[] {
  // Waiting for nothing would mean trying without pause.
  const positive = (
    ["sync-interval", "sync-interval-cap", "probe-interval", "keepalive-timeout"] as const
  )
    .filter((flag) => values[flag] <= 0)
    .map((flag) => `${flag} must be > 0, got ${formatGoDuration(values[flag])}`);
  const notNegative = (
    [
      "keepalive-time",
      "drain-linger",
      "drain-timeout",
      "stall-timeout",
      "half-close-timeout",
    ] as const
  )
    .filter((flag) => values[flag] < 0)
    .map((flag) => `${flag} must be >= 0, got ${formatGoDuration(values[flag])}`);
  return [...positive, ...notNegative, ...drainProblems(values)];
}

function drainProblems(values: Values): string[] {
  const linger = values["drain-linger"];
  const timeout = values["drain-timeout"];
  if (linger <= timeout) return [];
  return [
    `drain-linger ${formatGoDuration(linger)} must not be longer than drain-timeout ${formatGoDuration(timeout)}`,
  ];
}

/** Upstream finds this out when it lists. */
function leaseProblems(values: Values): string[] {
  if (!values["count-server-leases"] || values["lease-namespace"] !== "") return [];
  return ["--lease-namespace cannot be empty when --count-server-leases is set"];
}
