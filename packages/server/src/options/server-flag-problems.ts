import {
  formatGoDuration,
  goQuote,
  isSupportedCipherSuite,
  missingFileText,
  tlsPathProblems,
  windowProblems,
} from "@reachback/common";
import type { FileExists, ParsedFlags } from "@reachback/common";
import { MAX_WORKERS } from "../limits.ts";
import { formatFrontend, formatListenAddress, isFrontendProtocol } from "./frontend-spec.ts";
import type { ListenAddress } from "./frontend-spec.ts";
import { leaseLabelProblem } from "./lease-labels.ts";
import { proxyStrategyProblems } from "./proxy-strategies.ts";
import { readyStrategiesProblems } from "./ready-strategies.ts";
import type { SERVER_FLAGS } from "./server-flags.ts";

export type ServerFlags = ParsedFlags<typeof SERVER_FLAGS>;
type Values = ServerFlags["values"];

const PREFIX = "failed to validate server options with";

/** Ports an operating system hands out by itself start above this one. */
const LAST_REGISTERED_PORT = 49_151;
const FIRST_UNRESERVED_PORT = 1_024;

/**
 * Everything that is wrong with the flags of a server: upstream's checks, in its order and words,
 * then our own.
 */
export function serverFlagProblems(flags: ServerFlags, fileExists: FileExists): string[] {
  const { values } = flags;
  const problems = [
    ...upstreamProblems(values, fileExists),
    ...frontendProblems(values),
    ...weakTlsProblems(values),
    ...negativeDurationProblems(values),
    ...negativeLimitProblems(values),
    ...keepaliveTimeoutProblems(values),
    ...windowProblems(flags),
    ...workersProblems(values),
    ...readyStrategiesProblems(values["ready-strategies"]),
    ...reviewProblems(values),
    ...leaseProblems(values),
  ].map((problem) => `${PREFIX} ${problem}`);

  // Upstream reads the labels once more after validation, whether it uses them or not.
  const labelProblem = leaseLabelProblem(values["lease-label"]);
  if (labelProblem !== undefined && !values["enable-lease-controller"]) problems.push(labelProblem);
  return problems;
}

/** Upstream's own checks. It stops at the first, so the order is part of its behaviour. */
function upstreamProblems(values: Values, fileExists: FileExists): string[] {
  return [
    ...tlsPathProblems(
      "server",
      {
        keyPath: values["server-key"],
        certPath: values["server-cert"],
        caCertPath: values["server-ca-cert"],
      },
      fileExists,
    ),
    ...tlsPathProblems(
      "cluster",
      {
        keyPath: values["cluster-key"],
        certPath: values["cluster-cert"],
        caCertPath: values["cluster-ca-cert"],
      },
      fileExists,
    ),
    ...modeProblems(values),
    ...firstFrontendProblems(values),
    ...portProblems(values),
    ...contentionProfilingProblems(values),
    ...tokenProblems(values),
    ...kubeconfigProblems(values, fileExists),
    ...proxyStrategyProblems(values["proxy-strategies"]),
    ...channelSizeProblems(values),
    ...unknownTlsVersionProblems(values),
    ...chosenCipherSuites(values)
      .filter((name) => !isSupportedCipherSuite(name))
      .map((name) => {
        return `cipher suite ${name} not supported, doesn't exist or considered as insecure`;
      }),
    ...leaseControllerProblems(values),
    ...timeoutProblems(values),
  ];
}

function modeProblems({ mode }: Values): string[] {
  if (isFrontendProtocol(mode)) return [];
  return [`mode must be set to either 'grpc' or 'http-connect' not ${goQuote(mode)}`];
}

function firstFrontendProblems(values: Values): string[] {
  if (values["uds-name"] === "") {
    if (values["server-ca-cert"] !== "") return [];
    if (values["insecure-allow-unauthenticated-frontends"]) return [];
    return ["server ca cert must be set when in TCP mode (uds-name is empty)"];
  }
  const problems: string[] = [];
  const port = values["server-port"];
  if (port !== 0) problems.push(`server port should be set to 0 not ${port} for UDS`);
  // Upstream has one frontend, so beside a Unix socket the files are a mistake. Here a TCP frontend
  // from --frontend may need them.
  if (values.frontend.some(({ address }) => address.kind === "tcp")) return problems;
  if (values["server-key"] !== "") problems.push("server key should not be set for UDS");
  if (values["server-cert"] !== "") problems.push("server cert should not be set for UDS");
  if (values["server-ca-cert"] !== "") problems.push("server ca cert should not be set for UDS");
  return problems;
}

function portProblems(values: Values): string[] {
  const listeners = ["server", "agent", "admin", "health"] as const;
  const ephemeral = listeners
    .filter((listener) => values[`${listener}-port`] > LAST_REGISTERED_PORT)
    .map((listener) => portProblem("ephemeral", listener, values[`${listener}-port`]));
  const reserved = listeners
    .filter((listener) => values[`${listener}-port`] < FIRST_UNRESERVED_PORT)
    .filter((listener) => listener !== "server" || values["uds-name"] === "")
    .map((listener) => portProblem("reserved", listener, values[`${listener}-port`]));
  return [...ephemeral, ...reserved];
}

function portProblem(range: string, listener: string, port: number): string {
  return `please do not try to use ${range} port ${port} for the ${listener} port`;
}

function contentionProfilingProblems(values: Values): string[] {
  if (!values["enable-contention-profiling"] || values["enable-profiling"]) return [];
  return ["if --enable-contention-profiling is set, --enable-profiling must also be set"];
}

const TOKEN_FLAGS = [
  "agent-namespace",
  "agent-service-account",
  "authentication-audience",
] as const;

export function usesTokens(values: Values): boolean {
  return TOKEN_FLAGS.some((flag) => values[flag] !== "");
}

function tokenProblems(values: Values): string[] {
  if (!usesTokens(values)) return [];
  // Upstream also refuses --cluster-ca-cert here; two proofs are better than one.
  return TOKEN_FLAGS.filter((flag) => values[flag] === "").map(
    (flag) => `--${flag} cannot be empty when agent authentication is enabled`,
  );
}

function kubeconfigProblems({ kubeconfig }: Values, fileExists: FileExists): string[] {
  if (kubeconfig === "" || fileExists(kubeconfig)) return [];
  return [`checking KubeconfigPath ${goQuote(kubeconfig)}, got ${missingFileText(kubeconfig)}`];
}

function channelSizeProblems(values: Values): string[] {
  const size = values["xfr-channel-size"];
  return size > 0 ? [] : [`channel size ${size} must be greater than 0`];
}

const TLS_VERSIONS = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"];

function unknownTlsVersionProblems(values: Values): string[] {
  const version = values["tls-min-version"];
  if (version === "" || TLS_VERSIONS.includes(version)) return [];
  const supported = `supported values are: ${TLS_VERSIONS.join(", ")}`;
  return [`unsupported TLS version ${goQuote(version)}, ${supported}`];
}

function leaseControllerProblems(values: Values): string[] {
  const problem = leaseLabelProblem(values["lease-label"]);
  return values["enable-lease-controller"] && problem !== undefined ? [problem] : [];
}

function timeoutProblems(values: Values): string[] {
  return negativeProblems(values, ["graceful-shutdown-timeout", "backend-dial-timeout"]);
}

/** The list without `[]`, which is how a program that passes all flags on spells "empty". */
export function chosenCipherSuites(values: Values): string[] {
  return values["cipher-suites"].filter((name) => name !== "[]");
}

/** Where the frontend of upstream's flags listens. */
export function firstAddress(values: Values): ListenAddress {
  const path = values["uds-name"];
  if (path !== "") return { kind: "unix", path };
  return { kind: "tcp", host: values["server-bind-address"], port: values["server-port"] };
}

function frontendProblems(values: Values): string[] {
  const problems: string[] = [];
  const addresses = new Set([formatListenAddress(firstAddress(values))]);
  for (const frontend of values.frontend) {
    const text = `--frontend=${formatFrontend(frontend)}`;
    const address = formatListenAddress(frontend.address);
    if (addresses.has(address)) problems.push(`${text} has the address of another frontend`);
    addresses.add(address);
    if (frontend.address.kind === "unix") continue;
    if (values["server-cert"] === "" || values["server-key"] === "") {
      problems.push(`${text} is a TCP frontend and needs --server-cert and --server-key`);
    }
    const isGuarded = values["server-ca-cert"] !== "";
    if (!isGuarded && !values["insecure-allow-unauthenticated-frontends"]) {
      problems.push(
        `${text} is a TCP frontend and needs --server-ca-cert, or --insecure-allow-unauthenticated-frontends`,
      );
    }
  }
  return problems;
}

function weakTlsProblems(values: Values): string[] {
  const version = values["tls-min-version"];
  if (version !== "VersionTLS10" && version !== "VersionTLS11") return [];
  return [
    `--tls-min-version=${version} is refused: TLS before 1.2 is broken (RFC 8996), use VersionTLS12 or VersionTLS13`,
  ];
}

function negativeDurationProblems(values: Values): string[] {
  return negativeProblems(values, [
    "keepalive-time",
    "frontend-keepalive-time",
    "startup-dial-hold",
    "shutdown-delay",
    "token-review-cache-ttl",
    "stall-timeout",
    "half-close-timeout",
  ]);
}

function negativeLimitProblems(values: Values): string[] {
  const flags = [
    "max-pending-dials",
    "max-connections",
    "max-connections-per-agent",
    "max-tunnels-per-identity",
  ] as const;
  return flags
    .filter((flag) => values[flag] < 0)
    .map((flag) => `${flag} must be >= 0, got ${values[flag]}; 0 means no limit`);
}

function keepaliveTimeoutProblems(values: Values): string[] {
  const timeout = values["keepalive-timeout"];
  return timeout > 0 ? [] : [`keepalive-timeout must be > 0, got ${formatGoDuration(timeout)}`];
}

function workersProblems({ workers }: Values): string[] {
  if (workers >= 1 && workers <= MAX_WORKERS) return [];
  return [`workers must be from 1 to ${MAX_WORKERS}, got ${workers}`];
}

type DurationFlag =
  | "graceful-shutdown-timeout"
  | "backend-dial-timeout"
  | "keepalive-time"
  | "frontend-keepalive-time"
  | "startup-dial-hold"
  | "shutdown-delay"
  | "token-review-cache-ttl"
  | "stall-timeout"
  | "half-close-timeout";

function negativeProblems(values: Values, flags: readonly DurationFlag[]): string[] {
  return flags
    .filter((flag) => values[flag] < 0)
    .map((flag) => `${flag} must be >= 0, got ${formatGoDuration(values[flag])}`);
}

function reviewProblems(values: Values): string[] {
  const problems = (["kubeconfig-qps", "kubeconfig-burst"] as const)
    .filter((flag) => !(values[flag] >= 0 && values[flag] < Infinity))
    .map((flag) => `${flag} must be a number >= 0, got ${values[flag]}`);
  if (values["token-review-timeout"] <= 0) {
    const timeout = formatGoDuration(values["token-review-timeout"]);
    problems.push(`token-review-timeout must be > 0, got ${timeout}`);
  }
  if (values["token-review-queue"] <= 0) {
    problems.push(`token-review-queue must be > 0, got ${values["token-review-queue"]}`);
  }
  return problems;
}

/** A Kubernetes object has the name of a DNS subdomain (RFC 1123), and our prefix before it. */
const LEASE_NAME_REST = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;
const MAX_LEASE_NAME_REST = 253 - "konnectivity-proxy-server-".length;

/** Upstream finds these out when it writes the lease. */
function leaseProblems(values: Values): string[] {
  if (!values["enable-lease-controller"]) return [];
  const problems: string[] = [];
  const id = values["server-id"];
  const suffixLength = values.workers > 1 ? `-${values.workers}`.length : 0;
  const maxLength = MAX_LEASE_NAME_REST - suffixLength;
  const isName = LEASE_NAME_REST.test(id) && id.length <= maxLength;
  if (id !== "" && !isName) {
    problems.push(
      `server-id ${goQuote(id)} cannot name a lease: use at most ${maxLength} lower case letters, digits, '-' and '.', a letter or digit at each end`,
    );
  }
  if (values["lease-namespace"] === "") {
    problems.push("--lease-namespace cannot be empty when --enable-lease-controller is set");
  }
  return problems;
}
