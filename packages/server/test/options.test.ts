import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { opensslCiphers, startProgram } from "@reachback/common";
import type { FlagTable } from "@reachback/common";
import { SeededRandom } from "@reachback/common/testing";
import { SERVER_FLAGS } from "../src/options/server-flags.ts";
import { serverProgram } from "../src/options.ts";
import type { ServerOptions } from "../src/options.ts";

interface Start {
  readonly code: number;
  readonly stdout: string;
  /** The lines `Error: ...`, without that word. */
  readonly problems: readonly string[];
  readonly lastLine: string;
  readonly warnings: readonly string[];
  readonly options: ServerOptions | undefined;
}

/** What the program makes of `argv` on a machine that has everything below /pki and /run. */
async function start(argv: readonly string[], env: Record<string, string> = {}): Promise<Start> {
  let stdout = "";
  let stderr = "";
  let seen: ServerOptions | undefined;
  const host = {
    argv,
    env,
    random: new SeededRandom(1),
    fileExists: (path: string) => /^\/(pki|run)\//.test(path),
    memoryLimitBytes: () => 1024 * 1024 * 1024,
    stdout: (text: string) => {
      stdout += text;
    },
    stderr: (text: string) => {
      stderr += text;
    },
  };
  const code = await startProgram(serverProgram("1.2.3"), host, (options) => {
    seen = options;
    return Promise.resolve(0);
  });
  const lines = stderr.trimEnd().split("\n");
  return {
    code,
    stdout,
    problems: lines.filter((line) => line.startsWith("Error: ")).map((line) => line.slice(7)),
    lastLine: lines.at(-1) ?? "",
    warnings: lines.filter((line) => line.startsWith("Flag ")),
    options: seen,
  };
}

/** Flags of a server that starts: gRPC on a Unix socket, agents by TLS. */
const UDS = ["--uds-name=/run/su.sock", "--server-port=0"];
const TCP = [
  "--server-cert=/pki/server.crt",
  "--server-key=/pki/server.key",
  "--server-ca-cert=/pki/ca.crt",
];
const PREFIX = "failed to validate server options with ";

async function optionsFor(...argv: string[]): Promise<ServerOptions> {
  const { options, problems } = await start(argv);
  assert.ok(options, problems.join("\n"));
  return options;
}

async function problemsOf(...argv: string[]): Promise<readonly string[]> {
  const { problems, options, code, lastLine } = await start(argv);
  assert.equal(options, undefined);
  assert.equal(code, 1);
  assert.equal(lastLine, `error: ${problems[0] ?? ""}`);
  return problems.map((problem) => problem.replace(PREFIX, ""));
}

/** Upstream's flags, besides the logger's: name, type, default. */
const UPSTREAM: readonly (readonly [name: string, type: string, defaultText: string])[] = [
  ["admin-bind-address", "string", "127.0.0.1"],
  ["admin-port", "int", "8095"],
  ["agent-bind-address", "string", ""],
  ["agent-namespace", "string", ""],
  ["agent-port", "int", "8091"],
  ["agent-service-account", "string", ""],
  ["authentication-audience", "string", ""],
  ["backend-dial-timeout", "duration", "0s"],
  ["cipher-suites", "strings", "[]"],
  ["cluster-ca-cert", "string", ""],
  ["cluster-cert", "string", ""],
  ["cluster-key", "string", ""],
  ["delete-existing-uds-file", "bool", "true"],
  ["enable-contention-profiling", "bool", "false"],
  ["enable-lease-controller", "bool", "false"],
  ["enable-profiling", "bool", "false"],
  ["frontend-keepalive-time", "duration", "1h0m0s"],
  ["graceful-shutdown-timeout", "duration", "0s"],
  ["health-bind-address", "string", ""],
  ["health-port", "int", "8092"],
  ["keepalive-time", "duration", "1h0m0s"],
  ["kube-api-content-type", "string", "application/vnd.kubernetes.protobuf"],
  ["kubeconfig", "string", ""],
  ["kubeconfig-burst", "int", "0"],
  ["kubeconfig-qps", "float32", "0"],
  ["lease-label", "string", "k8s-app=konnectivity-server"],
  ["lease-namespace", "string", "kube-system"],
  ["mode", "string", "grpc"],
  ["proxy-strategies", "string", "default"],
  ["server-bind-address", "string", ""],
  ["server-ca-cert", "string", ""],
  ["server-cert", "string", ""],
  ["server-count", "int", "1"],
  ["server-id", "string", ""],
  ["server-key", "string", ""],
  ["server-port", "int", "8090"],
  ["tls-min-version", "string", ""],
  ["uds-name", "string", ""],
  ["warn-on-channel-limit", "bool", "true"],
  ["xfr-channel-size", "int", "10"],
];

/** Where a default is ours, and what it is. */
const OUR_DEFAULTS: Readonly<Record<string, string>> = {
  "backend-dial-timeout": "10s",
  "keepalive-time": "15s",
};

const KIB = 1024;

const OUR_FLAGS = [
  "frontend",
  "insecure-allow-unauthenticated-agents",
  "insecure-allow-unauthenticated-frontends",
  "max-connections",
  "max-connections-per-agent",
  "max-pending-dials",
  "max-tunnels-per-identity",
  "startup-dial-hold",
  "shutdown-delay",
  "keepalive-timeout",
  "ready-strategies",
  "token-review-cache-ttl",
  "token-review-queue",
  "token-review-timeout",
  "uds-mode",
  "connection-window",
  "tunnel-window",
  "process-window",
  "stall-timeout",
  "half-close-timeout",
  "workers",
  "zone",
];

const TABLE: FlagTable = SERVER_FLAGS;

describe("the server's flags", () => {
  for (const [name, type, defaultText] of UPSTREAM) {
    it(`--${name} is of upstream's type, and its default is known`, () => {
      const spec = TABLE[name];
      assert.ok(spec);
      assert.equal(spec.type.name, type);
      assert.equal(spec.type.format(spec.default), OUR_DEFAULTS[name] ?? defaultText);
    });

    it(`--${name} takes its own default, and no other spelling of its name`, async () => {
      const { code, problems } = await start([`--${name}=${defaultText}`, "--help"]);
      assert.deepEqual([code, problems], [0, []]);

      const camelCase = name.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase());
      const others = [camelCase, name.replaceAll("-", "."), name.replaceAll("-", "_")];
      for (const other of [...others.filter((text) => text !== name), `no-${name}`]) {
        assert.deepEqual((await start([`--${other}=${defaultText}`])).problems, [
          `unknown flag: --${other}`,
        ]);
      }
    });
  }

  it("are upstream's, the logger's and our own", () => {
    const loggers = Object.keys(TABLE).filter((name) => TABLE[name]?.group.startsWith("Logging"));
    const known = [...UPSTREAM.map(([name]) => name), ...OUR_FLAGS, ...loggers];
    assert.deepEqual(Object.keys(TABLE).sort(), known.sort());
    assert.equal(loggers.length, 15);
  });

  it("are all in help, but for the deprecated one", async () => {
    const { stdout } = await start(["--help"]);
    for (const name of Object.keys(TABLE)) {
      const isMentioned = new RegExp(`^  (?:-v, |    )--${name}(?: |$)`, "m").test(stdout);
      assert.equal(isMentioned, name !== "warn-on-channel-limit", name);
    }
    assert.match(stdout, /^Usage: reachback-server \[flags\]\n/);
  });

  it("print a notice for the deprecated one, and go on", async () => {
    const { warnings, options } = await start([...UDS, "--warn-on-channel-limit=false"]);
    assert.deepEqual(warnings, [
      "Flag --warn-on-channel-limit has been deprecated, This behavior is now thread safe and always on. This flag will be removed in a future release.",
    ]);
    assert.ok(options);
  });

  it("include --version", async () => {
    const { stdout, code } = await start(["--version"]);
    assert.deepEqual([stdout, code], ["reachback-server 1.2.3\n", 0]);
  });
});

interface RecordedStart {
  readonly binary: string;
  readonly args: readonly string[];
  readonly exit: number;
  readonly stderr: string;
  readonly stderr_last?: string;
}

const RECORDED = (
  JSON.parse(
    readFileSync(new URL("../../../test/golden/startup-errors.json", import.meta.url), "utf8"),
  ) as RecordedStart[]
).filter(({ binary }) => binary === "proxy-server");

/**
 * Recorded starts that get past the flags, and what stops them there. Dots stand for the arguments
 * that many of them share.
 */
const DECIDED_LATER: Readonly<Record<string, string>> = {
  "... --cluster-ca-cert=/run/garbage.pem": "the CA file has to be read",
  "... --cluster-ca-cert=/run/badcert.pem": "the CA file has to be read",
  "--cluster-cert= --uds-name=/run/su.sock --server-port=0": "the key pair has to be read",
  "--server-ca-cert=/pki/ca.crt": "the key pair has to be read",
  "... --agent-namespace=x --agent-service-account=x --authentication-audience=x":
    "the apiserver has to be found",
  "... --enable-lease-controller": "the apiserver has to be found",
  // Certificates and tokens together are allowed here.
  "... --agent-namespace=x --agent-service-account=x --authentication-audience=x --cluster-ca-cert=/pki/ca.crt":
    "the apiserver has to be found",
  "... --uds-name=/nonexistent-dir/x.sock": "the socket has to be bound",
  "... --uds-name=/nonexistent-dir/x.sock --mode=http-connect":
    "upstream crashes at the same point",
};

/** Recorded starts that end differently here, and how. */
const DIFFERENT: Readonly<Record<string, readonly string[]>> = {
  "--version": [],
};

const SHARED = RECORDED.find(({ args }) => args.at(-1) === "--agent-port=50000")?.args.slice(0, -1);

function essentialArguments(args: readonly string[]): string {
  const shared = SHARED?.join(" ") ?? assert.fail("no recorded start has the shared arguments");
  return args.join(" ").replace(shared, "...");
}

describe("a start that upstream refuses", () => {
  const listed = new Set<string>();
  for (const { args, exit, stderr, stderr_last } of RECORDED) {
    const essential = essentialArguments(args);
    const reason = DECIDED_LATER[essential];
    const different = DIFFERENT[essential];
    listed.add(essential);
    if (reason !== undefined) {
      it(`with ${essential} gets past the flags here too: ${reason}`, async () => {
        const { options, problems } = await start(args);
        assert.ok(options, problems.join("\n"));
      });
    } else if (different !== undefined) {
      it(`with ${essential} ends in our own way`, async () => {
        const { problems, code } = await start(args);
        assert.deepEqual(problems, different);
        assert.equal(code, different.length > 0 ? 1 : 0);
      });
    } else {
      it(`with ${essential || "no arguments"} is refused in the same words`, async () => {
        const { problems, code, lastLine } = await start(args);
        assert.equal(`Error: ${problems[0] ?? ""}`, stderr);
        assert.equal(lastLine, stderr_last);
        assert.equal(code, exit);
      });
    }
  }

  it("is looked at in every recorded case, and every exception is one of them", () => {
    assert.equal(RECORDED.length, 66);
    for (const exception of [...Object.keys(DECIDED_LATER), ...Object.keys(DIFFERENT)]) {
      assert.ok(listed.has(exception), exception);
    }
  });
});

describe("validation of the server's flags", () => {
  it("reports all problems, in upstream's order, before our own", async () => {
    const problems = await problemsOf(
      "--backend-dial-timeout=-1s",
      "--lease-label=foo",
      "--tls-min-version=VersionTLS10",
      "--xfr-channel-size=0",
      "--proxy-strategies=destHost,foo,bar",
      "--cipher-suites=A,TLS_AES_128_GCM_SHA256,B",
      "--admin-port=80",
      "--agent-port=50000",
      "--mode=x",
      "--cluster-key=/nope",
      "--server-key=/nope",
      "--enable-lease-controller",
      "--frontend=grpc,:9090",
    );
    assert.deepEqual(problems, [
      "error checking server key /nope, got stat /nope: no such file or directory",
      'cannot have server cert empty when server key is set to "/nope"',
      "error checking cluster key /nope, got stat /nope: no such file or directory",
      'cannot have cluster cert empty when cluster key is set to "/nope"',
      "mode must be set to either 'grpc' or 'http-connect' not \"x\"",
      "server ca cert must be set when in TCP mode (uds-name is empty)",
      "please do not try to use ephemeral port 50000 for the agent port",
      "please do not try to use reserved port 80 for the admin port",
      "invalid proxy strategies: unknown proxy strategy: foo",
      "invalid proxy strategies: unknown proxy strategy: bar",
      "channel size 0 must be greater than 0",
      "cipher suite A not supported, doesn't exist or considered as insecure",
      "cipher suite B not supported, doesn't exist or considered as insecure",
      "invalid label format: foo",
      "backend-dial-timeout must be >= 0, got -1s",
      "--frontend=grpc,:9090 is a TCP frontend and needs --server-cert and --server-key",
      "--frontend=grpc,:9090 is a TCP frontend and needs --server-ca-cert, or --insecure-allow-unauthenticated-frontends",
      "--tls-min-version=VersionTLS10 is refused: TLS before 1.2 is broken (RFC 8996), use VersionTLS12 or VersionTLS13",
    ]);
  });

  it("refuses what the apiserver would, and reviews without rate, room or time", async () => {
    const problems = await problemsOf(
      ...UDS,
      "--enable-lease-controller",
      "--server-id=Not_A_Name",
      "--lease-namespace=",
      "--kubeconfig-qps=-1",
      "--kubeconfig-burst=-2",
      "--token-review-timeout=0",
      "--token-review-queue=0",
      "--token-review-cache-ttl=-1s",
      "--agent-namespace=x",
    );
    assert.deepEqual(problems, [
      "--agent-service-account cannot be empty when agent authentication is enabled",
      "--authentication-audience cannot be empty when agent authentication is enabled",
      "token-review-cache-ttl must be >= 0, got -1s",
      "kubeconfig-qps must be a number >= 0, got -1",
      "kubeconfig-burst must be a number >= 0, got -2",
      "token-review-timeout must be > 0, got 0s",
      "token-review-queue must be > 0, got 0",
      "server-id \"Not_A_Name\" cannot name a lease: use at most 227 lower case letters, digits, '-' and '.', a letter or digit at each end",
      "--lease-namespace cannot be empty when --enable-lease-controller is set",
    ]);
  });

  it("reports a bad lease label last and without the usual prefix, used or not", async () => {
    const { problems } = await start([...UDS, "--lease-label=a=b=c,d", "--xfr-channel-size=0"]);
    assert.deepEqual(problems, [
      `${PREFIX}channel size 0 must be greater than 0`,
      "invalid label format: a=b=c",
    ]);
  });

  it("refuses a TCP frontend without client authentication unless told otherwise", async () => {
    const files = TCP.slice(0, 2);
    assert.deepEqual(await problemsOf(...files), [
      "server ca cert must be set when in TCP mode (uds-name is empty)",
    ]);
    const options = await optionsFor(...files, "--insecure-allow-unauthenticated-frontends");
    assert.equal(options.allowUnauthenticatedFrontends, true);
    assert.equal(options.serverCaCertPath, "");
  });

  it("refuses TLS files beside a Unix socket, unless a TCP frontend needs them", async () => {
    assert.deepEqual(await problemsOf(...UDS, ...TCP), [
      "server key should not be set for UDS",
      "server cert should not be set for UDS",
      "server ca cert should not be set for UDS",
    ]);
    const options = await optionsFor(...UDS, ...TCP, "--frontend=http-connect,127.0.0.1:9090");
    assert.equal(options.frontends.length, 2);
  });

  it("refuses two frontends at one address", async () => {
    const flags = ["--frontend=http-connect,unix:/run/su.sock", "--frontend=grpc,unix:/run/a"];
    assert.deepEqual(await problemsOf(...UDS, ...flags, "--frontend=http-connect,unix:/run/a"), [
      "--frontend=http-connect,unix:/run/su.sock has the address of another frontend",
      "--frontend=http-connect,unix:/run/a has the address of another frontend",
    ]);
    assert.deepEqual(await problemsOf(...TCP, "--frontend=grpc,:8090"), [
      "--frontend=grpc,:8090 has the address of another frontend",
    ]);
  });

  it("refuses a keepalive timeout of 0, and strategies that nobody knows", async () => {
    assert.deepEqual(await problemsOf(...UDS, "--keepalive-timeout=0", "--ready-strategies=some"), [
      "keepalive-timeout must be > 0, got 0s",
      "ready-strategies must be one of first, any, all, got some",
    ]);
  });

  it("reads a keepalive time of 0 as never", async () => {
    const options = await optionsFor(...UDS, "--keepalive-time=0", "--frontend-keepalive-time=0");
    assert.equal(options.keepaliveTimeMs, Number.POSITIVE_INFINITY);
    assert.equal(options.frontendKeepaliveTimeMs, Number.POSITIVE_INFINITY);
  });

  it("refuses negative times", async () => {
    const flags = ["--keepalive-time=-1s", "--frontend-keepalive-time=-100ms"];
    const ours = ["--stall-timeout=-1s", "--half-close-timeout=-1s"];
    assert.deepEqual(await problemsOf(...UDS, ...flags, ...ours), [
      "keepalive-time must be >= 0, got -1s",
      "frontend-keepalive-time must be >= 0, got -100ms",
      "stall-timeout must be >= 0, got -1s",
      "half-close-timeout must be >= 0, got -1s",
    ]);
  });

  it("refuses a connection's window below the first one, which peers use unasked", async () => {
    assert.deepEqual(await problemsOf(...UDS, "--connection-window=65535"), [
      "connection-window must be >= 64Ki, got 65535; 0 means an eighth of the memory limit",
    ]);
    assert.equal(
      (await optionsFor(...UDS, "--connection-window=64Ki")).flow.limits.maxBytes,
      65536,
    );
  });

  it("refuses negative limits and holds", async () => {
    const limits = [
      "max-pending-dials",
      "max-connections",
      "max-connections-per-agent",
      "max-tunnels-per-identity",
    ];
    const flags = limits.map((limit) => `--${limit}=-1`);
    assert.deepEqual(await problemsOf(...UDS, "--startup-dial-hold=-1s", ...flags), [
      "startup-dial-hold must be >= 0, got -1s",
      ...limits.map((limit) => `${limit} must be >= 0, got -1; 0 means no limit`),
    ]);
  });

  it("must have from 1 to 64 workers, and an id that leaves room for their number", async () => {
    for (const count of [0, -1, 65]) {
      assert.deepEqual(await problemsOf(...UDS, `--workers=${count}`), [
        `workers must be from 1 to 64, got ${count}`,
      ]);
    }
    const id = `--server-id=${"a".repeat(227)}`;
    const lease = [...UDS, "--enable-lease-controller", id];
    assert.equal((await optionsFor(...lease)).serverId.length, 227);
    const [problem = ""] = await problemsOf(...lease, "--workers=16");
    assert.match(problem, /cannot name a lease: use at most 224 /);
  });

  const ADDRESS =
    "the address must be unix:PATH, HOST:PORT or [IPV6]:PORT, with a port from 1 to 65535";
  const PROTOCOL =
    "must be grpc,ADDRESS or http-connect,ADDRESS, with unix:PATH or HOST:PORT for ADDRESS";
  const malformed: readonly (readonly [flag: string, text: string, cause: string])[] = [
    ["frontend", "", PROTOCOL],
    ["frontend", "grpc", PROTOCOL],
    ["frontend", "socks5,:1080", PROTOCOL],
    ["frontend", "unix:/run/a", PROTOCOL],
    ["frontend", "grpc,", ADDRESS],
    ["frontend", "grpc,unix:", "the address unix: names no path"],
    ["frontend", "grpc,localhost", ADDRESS],
    ["frontend", "grpc,localhost:0", ADDRESS],
    ["frontend", "grpc,localhost:65536", ADDRESS],
    ["frontend", "grpc,localhost:http", ADDRESS],
    ["frontend", "grpc,::1:8090", ADDRESS],
    ["frontend", "grpc,[::1]", ADDRESS],
    ["uds-mode", "770x", "must be permissions in octal, such as 0770"],
    ["uds-mode", "0888", "must be permissions in octal, such as 0770"],
    ["uds-mode", "4770", "must be permissions in octal, such as 0770"],
    ["uds-mode", "", "must be permissions in octal, such as 0770"],
  ];
  for (const [flag, text, cause] of malformed) {
    it(`refuses --${flag}=${text}`, async () => {
      assert.deepEqual(await problemsOf(`--${flag}=${text}`), [
        `invalid argument ${JSON.stringify(text)} for "--${flag}" flag: ${cause}`,
      ]);
    });
  }

  it("lets the flags of unused features be", async () => {
    await optionsFor(
      ...UDS,
      "--enable-lease-controller=false",
      "--lease-label=a=b,c=d",
      "--lease-namespace=x",
      "--kubeconfig=/pki/kubeconfig",
      "--kubeconfig-qps=2.5",
      "--kubeconfig-burst=3",
      "--kube-api-content-type=application/json",
      "--agent-namespace=",
    );
  });
});

describe("the server's options", () => {
  it("are pinned, because changing a default is a breaking change", async () => {
    assert.deepEqual(await optionsFor(...TCP), {
      serverId: new SeededRandom(1).uuid(),
      serverCount: 1,
      workers: 1,
      frontends: [{ protocol: "grpc", address: { kind: "tcp", host: "", port: 8090 } }],
      unixSocketMode: 0o770,
      deleteExistingUnixSocket: true,
      serverCertPath: "/pki/server.crt",
      serverKeyPath: "/pki/server.key",
      serverCaCertPath: "/pki/ca.crt",
      allowUnauthenticatedFrontends: false,
      frontendKeepaliveTimeMs: 3_600_000,
      agentBindAddress: "",
      agentPort: 8091,
      clusterCertPath: "",
      clusterKeyPath: "",
      clusterCaCertPath: "",
      allowUnauthenticatedAgents: false,
      keepaliveTimeMs: 15_000,
      keepaliveTimeoutMs: 10_000,
      tokenAuthentication: undefined,
      lease: undefined,
      kubeconfigPath: "",
      proxyStrategies: ["default"],
      zone: "",
      maxTunnelsPerIdentity: 10_000,
      backendDialTimeoutMs: 10_000,
      startupDialHoldMs: 0,
      maxPendingDials: 10_000,
      maxConnections: 65_536,
      maxConnectionsPerAgent: 16_384,
      gracefulShutdownTimeoutMs: 0,
      shutdownDelayMs: 5_000,
      flow: {
        limits: {
          initialBytes: 64 * KIB,
          maxBytes: 64 * 1024 * KIB,
          tunnelWindowBytes: 256 * 1024 * KIB,
          queueBytes: 256 * KIB,
          stallTimeoutMs: 1_000,
        },
        processWindowBytes: 256 * 1024 * KIB,
        halfCloseTimeoutMs: 10_000,
      },
      tlsCiphers: opensslCiphers(),
      tlsMinVersion: "TLSv1.2",
      healthBindAddress: "",
      healthPort: 8092,
      readyStrategies: "first",
      adminBindAddress: "127.0.0.1",
      adminPort: 8095,
      enableProfiling: false,
      enableContentionProfiling: false,
      logging: {
        verbosity: 4,
        logToStderr: true,
        logFile: "",
        logFileMaxSizeMegabytes: 1800,
        logDir: "",
        alsoLogToStderr: false,
        ignored: [],
      },
    });
  });

  it("are frozen through and through", async () => {
    const { frontends, logging, proxyStrategies, ...rest } = await optionsFor(...UDS);
    assert.ok([frontends, frontends[0], frontends[0]?.address, logging].every(Object.isFrozen));
    assert.ok(Object.isFrozen(proxyStrategies));
    assert.ok(Object.isFrozen((await start(UDS)).options), JSON.stringify(rest));
  });

  it("follow the flags of a stock static pod", async () => {
    const options = await optionsFor(
      "--logtostderr=true",
      "--log-file-max-size=0",
      "--uds-name=/run/konnectivity-server.socket",
      "--delete-existing-uds-file",
      "--cluster-cert=/pki/apiserver.crt",
      "--cluster-key=/pki/apiserver.key",
      "--cluster-ca-cert=/pki/ca.crt",
      "--mode=grpc",
      "--server-port=0",
      "--agent-port=8091",
      "--admin-port=8095",
      "--keepalive-time=1h",
      "--mode=http-connect",
    );
    assert.deepEqual(options.frontends, [
      {
        protocol: "http-connect",
        address: { kind: "unix", path: "/run/konnectivity-server.socket" },
      },
    ]);
    assert.deepEqual(options.logging.ignored, []);
  });

  const addresses: readonly (readonly [text: string, address: object])[] = [
    ["unix:/run/a,b", { kind: "unix", path: "/run/a,b" }],
    ["127.0.0.1:9090", { kind: "tcp", host: "127.0.0.1", port: 9090 }],
    ["localhost:1", { kind: "tcp", host: "localhost", port: 1 }],
    [":65535", { kind: "tcp", host: "", port: 65535 }],
    ["[::1]:8090", { kind: "tcp", host: "::1", port: 8090 }],
  ];
  for (const [text, address] of addresses) {
    it(`have a frontend at ${text} if asked for one`, async () => {
      const flags = ["--frontend=grpc,:1234", `--frontend=http-connect,${text}`];
      const { frontends } = await optionsFor(...UDS, ...TCP, ...flags);
      assert.deepEqual(frontends.slice(1), [
        { protocol: "grpc", address: { kind: "tcp", host: "", port: 1234 } },
        { protocol: "http-connect", address },
      ]);
    });
  }

  it("take the server's id from the flag, else the environment, else chance", async () => {
    const env = { PROXY_SERVER_ID: "from-env" };
    const id = async (...argv: string[]) => (await start([...UDS, ...argv], env)).options?.serverId;
    assert.equal(await id("--server-id=from-flag"), "from-flag");
    assert.equal(await id(), "from-env");
    assert.equal(await id("--server-id="), new SeededRandom(1).uuid());
    assert.equal((await start(UDS)).options?.serverId, new SeededRandom(1).uuid());
  });

  it("keep the order and the repeats of strategies, and skip empty ones", async () => {
    const list = "--proxy-strategies=,destHost,default,,destHost,defaultRoute,";
    assert.deepEqual((await optionsFor(...UDS, list)).proxyStrategies, [
      "destHost",
      "default",
      "destHost",
      "defaultRoute",
    ]);
  });

  it("name ciphers as Node does, the default ones where none are named", async () => {
    const names = "TLS_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA";
    const ciphersFor = async (list: string) =>
      (await optionsFor(...UDS, `--cipher-suites=${list}`)).tlsCiphers;
    assert.equal(await ciphersFor(names), opensslCiphers(names.split(",")));
    assert.equal(await ciphersFor(""), opensslCiphers());
    assert.equal(await ciphersFor("[]"), opensslCiphers());
  });

  it("hold TLS versions as Node names them", async () => {
    const version = async (text: string) =>
      (await optionsFor(...UDS, `--tls-min-version=${text}`)).tlsMinVersion;
    assert.equal(await version("VersionTLS12"), "TLSv1.2");
    assert.equal(await version("VersionTLS13"), "TLSv1.3");
  });

  it("hold durations in milliseconds, and a zero that means off", async () => {
    const options = await optionsFor(
      ...UDS,
      "--keepalive-time=1h0m30s",
      "--frontend-keepalive-time=1.5s",
      "--graceful-shutdown-timeout=100ms",
      "--shutdown-delay=50ms",
      "--backend-dial-timeout=0",
    );
    assert.equal(options.keepaliveTimeMs, 3_630_000);
    assert.equal(options.frontendKeepaliveTimeMs, 1_500);
    assert.equal(options.gracefulShutdownTimeoutMs, 100);
    assert.equal(options.shutdownDelayMs, 50);
    assert.equal(options.backendDialTimeoutMs, 0);
  });

  it("say what the apiserver is needed for, with more reviews per second than upstream", async () => {
    const tokens = ["namespace=ns", "service-account=sa"].map((flag) => `--agent-${flag}`);
    const { tokenAuthentication, lease, kubeconfigPath } = await optionsFor(
      ...UDS,
      ...tokens,
      "--authentication-audience=us",
      "--token-review-timeout=5s",
      "--enable-lease-controller",
      "--server-id=one",
      "--lease-label=a=b,c=d",
      "--kubeconfig=/pki/kubeconfig",
    );
    assert.deepEqual(tokenAuthentication, {
      namespace: "ns",
      serviceAccount: "sa",
      audience: "us",
      maxWaiting: 10_000,
      timeoutMs: 5_000,
      perSecond: 50,
      burst: 50,
      cacheTtlMs: 300_000,
    });
    assert.deepEqual(lease, { namespace: "kube-system", labels: { a: "b", c: "d" } });
    assert.equal(kubeconfigPath, "/pki/kubeconfig");
  });

  it("hold the mode of sockets as a number", async () => {
    for (const text of ["660", "0660", "0o660"]) {
      assert.equal((await optionsFor(...UDS, `--uds-mode=${text}`)).unixSocketMode, 0o660);
    }
  });
});
