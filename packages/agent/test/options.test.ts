import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { startProgram } from "@reachback/common";
import type { FlagTable } from "@reachback/common";
import { SeededRandom } from "@reachback/common/testing";
import { AGENT_FLAGS } from "../src/options/agent-flags.ts";
import { agentProgram } from "../src/options.ts";
import type { AgentOptions } from "../src/options.ts";

interface Start {
  readonly code: number;
  readonly stdout: string;
  /** The lines `Error: ...`, without that word. */
  readonly problems: readonly string[];
  readonly lastLine: string;
  readonly warnings: readonly string[];
  readonly options: AgentOptions | undefined;
}

/** What the program makes of `argv` on a machine that has everything below /pki and /run. */
async function start(argv: readonly string[], env: Record<string, string> = {}): Promise<Start> {
  let stdout = "";
  let stderr = "";
  let seen: AgentOptions | undefined;
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
  const code = await startProgram(agentProgram("1.2.3"), host, (options) => {
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

const PREFIX = "failed to validate agent options with ";

async function optionsFor(...argv: string[]): Promise<AgentOptions> {
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
  ["admin-server-port", "int", "8094"],
  ["agent-cert", "string", ""],
  ["agent-id", "string", ""],
  ["agent-identifiers", "string", ""],
  ["agent-key", "string", ""],
  ["alpn-proto", "strings", "[]"],
  ["ca-cert", "string", ""],
  ["count-server-leases", "bool", "false"],
  ["enable-contention-profiling", "bool", "false"],
  ["enable-profiling", "bool", "false"],
  ["health-server-host", "string", ""],
  ["health-server-port", "int", "8093"],
  ["keepalive-time", "duration", "1h0m0s"],
  ["kube-api-content-type", "string", "application/vnd.kubernetes.protobuf"],
  ["kubeconfig", "string", ""],
  ["lease-label", "string", "k8s-app=konnectivity-server"],
  ["lease-label-selector", "string", "k8s-app=konnectivity-server"],
  ["lease-namespace", "string", "kube-system"],
  ["probe-interval", "duration", "1s"],
  ["proxy-server-host", "string", "127.0.0.1"],
  ["proxy-server-port", "int", "8091"],
  ["server-count-source", "string", "default"],
  ["service-account-token-path", "string", ""],
  ["sync-forever", "bool", "false"],
  ["sync-interval", "duration", "1s"],
  ["sync-interval-cap", "duration", "10s"],
  ["warn-on-channel-limit", "bool", "false"],
  ["xfr-channel-size", "int", "150"],
];

const KIB = 1024;
/** Where a default is ours, and what it is. */
const OUR_DEFAULTS: Readonly<Record<string, string>> = { "keepalive-time": "15s" };

const OUR_FLAGS = [
  "drain-linger",
  "drain-timeout",
  "connection-window",
  "tunnel-window",
  "process-window",
  "stall-timeout",
  "half-close-timeout",
  "keepalive-timeout",
  "ready-min-servers",
  "server-discovery",
  "server-lookup-interval",
  "server-resolver",
];

const TABLE: FlagTable = AGENT_FLAGS;

describe("the agent's flags", () => {
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
      assert.equal(isMentioned, name !== "lease-label", name);
    }
    assert.match(stdout, /^Usage: reachback-agent \[flags\]\n/);
  });

  it("print a notice for the deprecated one, and go on", async () => {
    const { warnings, options } = await start(["--lease-label=a in (b,c)"]);
    assert.deepEqual(warnings, [
      "Flag --lease-label has been deprecated, Use --lease-label-selector instead",
    ]);
    assert.ok(options);
  });

  it("include --version", async () => {
    const { stdout, code } = await start(["--version"]);
    assert.deepEqual([stdout, code], ["reachback-agent 1.2.3\n", 0]);
  });

  it("take all of them as a test runner passes them on, each with its default", async () => {
    const argv = UPSTREAM.filter(([name]) => name !== "lease-label").map(
      ([name, , defaultText]) => `--${name}=${defaultText}`,
    );
    const upstreams = { keepaliveTimeMs: 3_600_000 };
    assert.deepEqual(await optionsFor(...argv), { ...(await optionsFor()), ...upstreams });
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
).filter(({ binary }) => binary === "proxy-agent");

/**
 * Recorded starts that get past the flags, and what stops them there. Dots stand for the arguments
 * that many of them share.
 */
const DECIDED_LATER: Readonly<Record<string, string>> = {
  "": "the CA file has to be read",
  "... --ca-cert=": "the CA file has to be read",
  "... --ca-cert=/run/garbage.pem": "the CA file has to be read",
  "... --ca-cert=/run/badcert.pem": "the CA file has to be read",
  "... --agent-cert=/pki/agent.crt --agent-key=/pki/server.key": "the key pair has to be read",
  "... --count-server-leases": "the apiserver has to be found",
};

/** Recorded starts that end differently here, and how. */
const DIFFERENT: Readonly<Record<string, readonly string[]>> = {
  "--version": [],
};

const SHARED = RECORDED.find(({ args }) => args.at(-1) === "--agent-key=/nope")?.args.slice(0, -1);

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
      it(`with ${essential || "no arguments"} gets past the flags here too: ${reason}`, async () => {
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
      it(`with ${essential} is refused in the same words`, async () => {
        const { problems, code, lastLine } = await start(args);
        assert.equal(`Error: ${problems[0] ?? ""}`, stderr);
        assert.equal(lastLine, stderr_last);
        assert.equal(code, exit);
      });
    }
  }

  it("is looked at in every recorded case, and every exception is one of them", () => {
    assert.equal(RECORDED.length, 29);
    for (const exception of [...Object.keys(DECIDED_LATER), ...Object.keys(DIFFERENT)]) {
      assert.ok(listed.has(exception), exception);
    }
  });
});

describe("validation of the agent's flags", () => {
  it("reports all problems, in upstream's order, before our own", async () => {
    const problems = await problemsOf(
      "--count-server-leases",
      "--drain-timeout=1s",
      "--alpn-proto=",
      "--alpn-proto=,[]",
      "--server-count-source=x",
      "--kubeconfig=/nope",
      "--agent-identifiers=foo=1",
      "--service-account-token-path=/nope",
      "--sync-interval=11s",
      "--enable-contention-profiling",
      "--xfr-channel-size=-1",
      "--admin-server-port=65536",
      "--health-server-port=-1",
      "--proxy-server-port=0",
      "--ca-cert=/nope",
      "--agent-cert=/nope",
    );
    assert.deepEqual(problems, [
      "error checking agent cert /nope, got stat /nope: no such file or directory",
      'cannot have agent key empty when agent cert is set to "/nope"',
      "error checking agent CA cert /nope, got stat /nope: no such file or directory",
      "proxy server port 0 must be greater than 0",
      "health server port -1 must be greater than 0",
      "channel size -1 must be greater than 0",
      "if --enable-contention-profiling is set, --enable-profiling must also be set",
      "sync interval 11s must be less than sync interval cap 10s",
      "error checking service account token path /nope, got stat /nope: no such file or directory",
      "agent address is invalid: unknown address type: foo",
      'error checking KubeconfigPath "/nope", got stat /nope: no such file or directory',
      "--server-count-source must be one of '', 'default', 'max', got x",
      "admin server port 65536 must not be greater than 65535",
      'alpn-proto "" must be 1 to 255 bytes long',
      "drain-linger 5s must not be longer than drain-timeout 1s",
    ]);
  });

  it("takes a sync interval equal to its cap", async () => {
    await optionsFor("--sync-interval=10s");
  });

  it("refuses intervals that would mean no pause at all, and negative times", async () => {
    const problems = await problemsOf(
      "--sync-interval=0",
      "--sync-interval-cap=0s",
      "--probe-interval=-1s",
      "--keepalive-time=-1s",
      "--drain-linger=-2s",
      "--drain-timeout=-1s",
      "--stall-timeout=-1s",
      "--half-close-timeout=-1s",
    );
    assert.deepEqual(problems, [
      "sync-interval must be > 0, got 0s",
      "sync-interval-cap must be > 0, got 0s",
      "probe-interval must be > 0, got -1s",
      "keepalive-time must be >= 0, got -1s",
      "drain-linger must be >= 0, got -2s",
      "drain-timeout must be >= 0, got -1s",
      "stall-timeout must be >= 0, got -1s",
      "half-close-timeout must be >= 0, got -1s",
    ]);
  });

  it("refuses a connection's window below the first one, which peers use unasked", async () => {
    assert.deepEqual(await problemsOf("--connection-window=1Ki"), [
      "connection-window must be >= 64Ki, got 1Ki; 0 means an eighth of the memory limit",
    ]);
    assert.equal((await optionsFor("--connection-window=64Ki")).flow.limits.maxBytes, 65536);
  });

  it("refuses names that cannot be sent", async () => {
    for (const id of ["a\nb", " a", "a ", "\u00fc", "a\u0000b", "\u65e5"]) {
      const problems = await problemsOf(`--agent-id=${id}`, `--agent-identifiers=host=${id}`);
      assert.equal(problems.length, id === " a" ? 1 : 2, JSON.stringify(id));
      const rule = "must be printable ASCII without spaces at its ends";
      assert.equal(
        problems[0],
        `agent-id ${JSON.stringify(id)} ${rule}`.replace("\\u0000", "\\x00"),
      );
    }
    assert.equal((await optionsFor("--agent-id=x y")).agentId, "x y");
  });

  it("takes ports that the server would refuse, as upstream does", async () => {
    const options = await optionsFor("--health-server-port=80", "--admin-server-port=50000");
    assert.deepEqual([options.healthServerPort, options.adminServerPort], [80, 50_000]);
  });

  it("lets the flags of lease counting be, as long as it is off", async () => {
    await optionsFor(
      "--count-server-leases=false",
      "--server-count-source=max",
      "--lease-namespace=x",
      "--lease-label-selector=",
      "--kubeconfig=/pki/kubeconfig",
      "--kube-api-content-type=application/json",
    );
  });
});

describe("the agent's options", () => {
  it("are pinned, because changing a default is a breaking change", async () => {
    assert.deepEqual(await optionsFor(), {
      agentId: new SeededRandom(1).uuid(),
      agentIdentifiers: "",
      servers: [{ host: "127.0.0.1", port: 8091, name: "127.0.0.1" }],
      serverDiscovery: "balancer",
      serverLookupIntervalMs: 3_000,
      serverResolvers: [],
      caCertPath: "",
      agentCertPath: "",
      agentKeyPath: "",
      serviceAccountTokenPath: "",
      alpnProtocols: [],
      keepaliveTimeMs: 15_000,
      keepaliveTimeoutMs: 10_000,
      syncIntervalMs: 1_000,
      syncIntervalCapMs: 10_000,
      probeIntervalMs: 1_000,
      serverLeases: undefined,
      drainLingerMs: 5_000,
      drainTimeoutMs: 25_000,
      flow: {
        limits: {
          initialBytes: 64 * KIB,
          maxBytes: 64 * 1024 * KIB,
          tunnelWindowBytes: 256 * 1024 * KIB,
          queueBytes: 600 * KIB,
          stallTimeoutMs: 1_000,
        },
        processWindowBytes: 256 * 1024 * KIB,
        halfCloseTimeoutMs: 10_000,
      },
      healthServerHost: "",
      healthServerPort: 8093,
      readyMinServers: 1,
      adminBindAddress: "127.0.0.1",
      adminServerPort: 8094,
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
    const options = await optionsFor("--alpn-proto=a");
    assert.ok([options, options.alpnProtocols, options.logging].every(Object.isFrozen));
  });

  it("follow the flags of a stock daemon set", async () => {
    const options = await optionsFor(
      "--logtostderr=true",
      "--ca-cert=/run/secrets/ca.crt",
      "--proxy-server-host=192.0.2.1",
      "--proxy-server-port=8132",
      "--admin-server-port=8133",
      "--health-server-port=8134",
      "--agent-identifiers=ipv4=${HOST_IP}",
      "--service-account-token-path=/run/secrets/token",
      "--v=2",
    );
    assert.deepEqual(options.servers, [{ host: "192.0.2.1", port: 8132, name: "192.0.2.1" }]);
    assert.equal(options.serverDiscovery, "balancer");
    assert.equal(options.agentIdentifiers, "ipv4=${HOST_IP}");
    assert.equal(options.serviceAccountTokenPath, "/run/secrets/token");
    assert.equal(options.logging.verbosity, 2);
  });

  it("take the agent's id from the flag, else the environment, else chance", async () => {
    const env = { PROXY_AGENT_ID: "from-env" };
    const id = async (...argv: string[]) => (await start(argv, env)).options?.agentId;
    assert.equal(await id("--agent-id=from-flag"), "from-flag");
    assert.equal(await id(), "from-env");
    assert.equal(await id("--agent-id="), new SeededRandom(1).uuid());
  });

  it("read [] as no protocol, alone or among others", async () => {
    const protocols = async (...argv: string[]) => (await optionsFor(...argv)).alpnProtocols;
    assert.deepEqual(await protocols("--alpn-proto=[]"), []);
    assert.deepEqual(await protocols("--alpn-proto=[]", "--alpn-proto=a,b"), ["a", "b"]);
    assert.deepEqual(await protocols("--alpn-proto="), []);
  });

  it("hold durations in milliseconds", async () => {
    const options = await optionsFor(
      "--sync-interval=500ms",
      "--sync-interval-cap=1m",
      "--probe-interval=1.5s",
      "--drain-linger=0",
      "--drain-timeout=0s",
    );
    assert.deepEqual(
      [options.syncIntervalMs, options.syncIntervalCapMs, options.probeIntervalMs],
      [500, 60_000, 1_500],
    );
    assert.deepEqual([options.drainLingerMs, options.drainTimeoutMs], [0, 0]);
  });

  it("read hosts with and without ports, repeated and with commas, each as a server", async () => {
    const options = await optionsFor(
      "--proxy-server-host=a.,b:1,192.0.2.1",
      "--proxy-server-host=::1",
      "--proxy-server-host=[fd00::1]:2",
      "--proxy-server-port=3",
    );
    assert.deepEqual(
      options.servers.map(({ host, port, name }) => `${host} ${port} ${name}`),
      ["a. 3 a", "b 1 b", "192.0.2.1 3 192.0.2.1", "::1 3 ::1", "fd00::1 2 fd00::1"],
    );
    assert.equal(options.serverDiscovery, "list");
  });

  it("take the way to find servers from the flag, else from the number of hosts", async () => {
    const discovery = async (...argv: string[]) => (await optionsFor(...argv)).serverDiscovery;
    assert.equal(await discovery("--proxy-server-host=a", "--server-discovery=dns"), "dns");
    assert.equal(await discovery("--proxy-server-host=a", "--server-discovery=list"), "list");
    const both = ["--proxy-server-host=a", "--proxy-server-host=b"];
    assert.equal(await discovery(...both), "list");
    assert.equal(await discovery(...both, "--server-discovery=balancer"), "balancer");
  });

  it("take name servers with and without ports", async () => {
    const { serverResolvers } = await optionsFor("--server-resolver=192.0.2.1,[::1]:53,::1");
    assert.deepEqual(serverResolvers, ["192.0.2.1", "[::1]:53", "::1"]);
  });

  it("take the servers that must have a tunnel as a word or a number", async () => {
    const needed = async (text: string) =>
      (await optionsFor(`--ready-min-servers=${text}`)).readyMinServers;
    assert.deepEqual(
      [await needed("one"), await needed("all"), await needed("1"), await needed("3")],
      [1, "all", 1, 3],
    );
  });

  it("refuse what says nothing about servers, and what contradicts itself", async () => {
    assert.deepEqual(
      await problemsOf(
        "--proxy-server-host=,a:0,a:b:c,[x",
        "--server-lookup-interval=999ms",
        "--server-resolver=ns.example.com,192.0.2.1:0,",
        "--ready-min-servers=0",
        "--keepalive-timeout=0",
      ),
      [
        "keepalive-timeout must be > 0, got 0s",
        "proxy-server-host is empty: name a server",
        'proxy-server-host "a:0" must be a host, or host:port with a port from 1 to 65535',
        'proxy-server-host "a:b:c": too many colons in address',
        'proxy-server-host "[x": missing port in address',
        "server-lookup-interval must be >= 1s, got 999ms",
        'server-resolver "ns.example.com" must be an IP address, or IP:port',
        'server-resolver "192.0.2.1:0" must be an IP address, or IP:port',
        'server-resolver "" must be an IP address, or IP:port',
        "ready-min-servers must be one, all or a number from 1, got 0",
      ],
    );
    assert.deepEqual(await problemsOf("--server-discovery=magic"), [
      "server-discovery must be one of balancer, list, dns, got magic",
    ]);
    const [leases] = await problemsOf("--count-server-leases", "--server-discovery=dns");
    assert.match(leases ?? "", /^count-server-leases needs server-discovery=balancer: /);
  });
});
