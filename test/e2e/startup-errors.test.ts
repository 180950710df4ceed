import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";
import { temporaryFolder } from "../support/cluster.ts";
import { runExecutable } from "../support/executable.ts";
import { freePorts } from "../support/free-ports.ts";
import type { EndedProgram, ExecutableName } from "../support/executable.ts";
import { createTestPki } from "../support/pki.ts";

// Starts that fail, by the executables. Each of the recorded ones that its flags decide is looked at
// in packages/{server,agent}/test/options.test.ts, at no cost of a process; here, one of each kind.

interface RecordedStart {
  readonly binary: "proxy-server" | "proxy-agent";
  readonly args: readonly string[];
  readonly exit: number;
  /** The line behind the log, and the last one. */
  readonly stderr: string;
  readonly stderr_last?: string;
}

const RECORDED = JSON.parse(
  readFileSync(new URL("../golden/startup-errors.json", import.meta.url), "utf8"),
) as RecordedStart[];

/** What most recorded starts have in common. */
const SERVER_FLAGS = [
  "--cluster-cert=/pki/server.crt",
  "--cluster-key=/pki/server.key",
  "--uds-name=/run/su.sock",
  "--server-port=0",
  "--agent-port=29191",
  "--health-port=29192",
  "--admin-port=29195",
];
const AGENT_FLAGS = [
  "--ca-cert=/pki/ca.crt",
  "--proxy-server-port=29191",
  "--health-server-port=29193",
  "--admin-server-port=29194",
];

/** Ours beside it: a server that lets in nobody without a certificate. */
const OUR_SERVER_FLAGS = [...SERVER_FLAGS, "--cluster-ca-cert=/pki/ca.crt"];

const BY_FLAGS =
  /^Error: (failed to validate|unknown (shorthand )?flag|invalid (argument|label)|flag needs|empty string)/;

const ONE_OF_EACH_KIND = [
  "--bogus",
  "--mode=foo",
  "... --cluster-ca-cert=/nope.crt",
  "... --agent-port=abc",
  "... --agent-port",
  "... --lease-label=foo",
  "-z",
  "... --agent-cert=/nope",
  "... --proxy-server-port=0",
];

/** Recorded starts that end differently here: how, and why. */
const DIFFERENT: Readonly<Record<string, { exit: number; error?: string; why: string }>> = {
  "--version": { exit: 0, why: "programs know their version" },
  "... --uds-name=/nonexistent-dir/x.sock --mode=http-connect": {
    exit: 1,
    error:
      "failed to run the frontend server: failed to get uds listener: failed to listen(unix) name " +
      "/nonexistent-dir/x.sock: listen unix /nonexistent-dir/x.sock: bind: no such file or directory",
    why: "upstream crashes",
  },
  "... --agent-namespace=x --agent-service-account=x --authentication-audience=x": {
    exit: 1,
    error:
      "failed to load kubernetes client config: invalid configuration: no configuration has been provided: " +
      "set --kubeconfig, or run in a pod, where KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are set",
    why: "it says what to do",
  },
  "... --enable-lease-controller": {
    exit: 1,
    error:
      "failed to load kubernetes client config: invalid configuration: no configuration has been provided: " +
      "set --kubeconfig, or run in a pod, where KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are set",
    why: "it says what to do",
  },
};

interface OurStart {
  readonly what: string;
  /** How it compares with what upstream does. */
  readonly upstream: string;
  readonly program: ExecutableName;
  readonly args: readonly string[];
  readonly error: string;
}

const NO_AGENT_CA =
  "failed to run the agent server: nothing would authenticate agents: set --cluster-ca-cert to the CA " +
  "of their certificates, --agent-namespace and its companions to have them identify by token, " +
  "or --insecure-allow-unauthenticated-agents to let in whoever reaches the port";
const inUse = (address: string) =>
  `failed to listen on ${address}: listen tcp ${address}: bind: address already in use`;
const unixInUse = (path: string) =>
  "failed to run the frontend server: failed to get uds listener: failed to listen(unix) name " +
  `${path}: listen unix ${path}: bind: address already in use`;

const OURS: readonly OurStart[] = [
  {
    what: "no CA for agents",
    upstream: "lets in any agent",
    program: "reachback-server",
    args: SERVER_FLAGS,
    error: NO_AGENT_CA,
  },
  {
    what: "a second frontend on TCP without a CA for its clients",
    upstream: "has no second frontend",
    program: "reachback-server",
    args: [...OUR_SERVER_FLAGS, "--frontend=http-connect,127.0.0.1:29196"],
    error:
      "failed to validate server options with --frontend=http-connect,127.0.0.1:29196 is a TCP frontend and needs --server-cert and --server-key",
  },
  {
    what: "TLS before 1.2",
    upstream: "only warns",
    program: "reachback-server",
    args: [...OUR_SERVER_FLAGS, "--tls-min-version=VersionTLS11"],
    error:
      "failed to validate server options with --tls-min-version=VersionTLS11 is refused: TLS before 1.2 is broken (RFC 8996), use VersionTLS12 or VersionTLS13",
  },
  {
    what: "a truncated certificate",
    upstream: "says the same, but not where",
    program: "reachback-server",
    args: [...OUR_SERVER_FLAGS, "--cluster-cert=/run/truncated.crt"],
    error:
      "failed to run the agent server: failed to load X509 key pair /run/truncated.crt and /pki/server.key: tls: failed to find any PEM data in certificate input (line 1: the CERTIFICATE block has no END line)",
  },
  {
    what: "a key of another certificate",
    upstream: "says the same",
    program: "reachback-server",
    args: [...OUR_SERVER_FLAGS, "--cluster-key=/pki/ca.key"],
    error:
      "failed to run the agent server: failed to load X509 key pair /pki/server.crt and /pki/ca.key: tls: private key does not match public key",
  },
  {
    what: "an expired certificate",
    upstream: "starts with it",
    program: "reachback-agent",
    args: [...AGENT_FLAGS, "--agent-cert=/pki/expired.crt", "--agent-key=/pki/expired.key"],
    error:
      "failed to run proxy connection with failed to load X509 key pair /pki/expired.crt and /pki/expired.key: x509: certificate has expired or is not yet valid: current time NOW is after 2001-01-01T00:00:00Z",
  },
  {
    what: "the agents' port taken",
    upstream: "says the same",
    program: "reachback-server",
    args: [...OUR_SERVER_FLAGS, "--agent-bind-address=127.0.0.1", "--agent-port=29199"],
    error: `failed to run the agent server: ${inUse("127.0.0.1:29199")}`,
  },
  {
    what: "the health port taken",
    upstream: "logs it and goes on without",
    program: "reachback-server",
    args: [...OUR_SERVER_FLAGS, "--health-bind-address=127.0.0.1", "--health-port=29199"],
    error: `failed to run the health server: ${inUse("127.0.0.1:29199")}`,
  },
  {
    what: "the agent's admin port taken",
    upstream: "logs it and goes on without",
    program: "reachback-agent",
    args: [...AGENT_FLAGS, "--admin-server-port=29199"],
    error: `failed to run the admin server: ${inUse("127.0.0.1:29199")}`,
  },
  {
    what: "the Unix socket of a server that runs",
    upstream: "takes it away from that server",
    program: "reachback-server",
    args: [...OUR_SERVER_FLAGS, "--uds-name=/run/live.sock"],
    error: `${unixInUse("/run/live.sock")} (another process listens there)`,
  },
  {
    what: "a file that is no socket",
    upstream: "deletes it",
    program: "reachback-server",
    args: [...OUR_SERVER_FLAGS, "--uds-name=/run/garbage.pem"],
    error: `${unixInUse("/run/garbage.pem")} (a file that is no socket)`,
  },
];

/** A machine as the recorded starts had it, with folders and ports of its own. */
class Machine {
  /** What is `/` in recorded paths. */
  readonly #root: string;
  readonly #ports: readonly (readonly [recorded: string, here: string])[];

  private constructor(root: string, ports: readonly (readonly [string, string])[]) {
    this.#root = root;
    this.#ports = ports;
  }

  static async create(t: TestContext): Promise<Machine> {
    const root = temporaryFolder(t);
    const pki = join(root, "pki");
    const run = join(root, "run");
    for (const path of [pki, run]) mkdirSync(path);

    const testPki = createTestPki();
    const { agentCa, serverAgent } = testPki;
    const expired = testPki.issue({
      ca: agentCa,
      notBefore: new Date("2000-01-01T00:00:00Z"),
      notAfter: new Date("2001-01-01T00:00:00Z"),
    });
    // A CA's, because only those have a key of their own; it is recorded that the server's is not it.
    const agent = testPki.createCa("agent");
    const files = { ca: agentCa, server: serverAgent, agent, expired };
    for (const [name, { certPath, keyPath }] of Object.entries(files)) {
      copyFileSync(certPath, join(pki, `${name}.crt`));
      copyFileSync(keyPath, join(pki, `${name}.key`));
    }
    writeFileSync(join(run, "garbage.pem"), "not a certificate\n");
    writeFileSync(
      join(run, "badcert.pem"),
      "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    writeFileSync(join(run, "truncated.crt"), serverAgent.cert.slice(0, 400));

    const recordedPorts = ["29191", "29192", "29193", "29194", "29195", "29196", "29199"];
    const ports = await freePorts(t, recordedPorts.length);
    for (const place of [
      { path: join(run, "live.sock") },
      { port: ports.at(-1), host: "127.0.0.1" },
    ]) {
      const server = createServer().listen(place);
      t.after(() => server.close());
      await once(server, "listening");
    }
    return new Machine(
      root,
      recordedPorts.map((port, i) => [port, String(ports[i])]),
    );
  }

  /** Start a program; what it writes is as if it had been started on the recorded machine. */
  async run(program: ExecutableName, args: readonly string[]): Promise<EndedProgram> {
    const ended = await runExecutable(
      program,
      args.map((arg) => {
        const atHome = arg.replace(/=\/(pki|run)\//, `=${this.#root}/$1/`);
        return this.#ports.reduce((text, [port, here]) => text.replaceAll(port, here), atHome);
      }),
    );
    const asRecorded = ended.stderr
      .replaceAll(`${this.#root}/`, "/")
      .replaceAll(/(?<=current time )\S+/g, "NOW");
    return {
      ...ended,
      stderr: this.#ports.reduce((text, [port, here]) => text.replaceAll(here, port), asRecorded),
    };
  }
}

/** The lines behind the log. */
function reportOf({ stderr }: EndedProgram): string[] {
  return stderr
    .trimEnd()
    .split("\n")
    .filter((line) => !line.startsWith("{"));
}

function assertReport(ended: EndedProgram, error: string): void {
  const report = reportOf(ended);
  assert.equal(report[0], `Error: ${error}`, ended.stderr);
  assert.equal(report.at(-1), `error: ${error}`);
  assert.ok(report.includes("Usage:"), ended.stderr);
}

/** Dots stand for what most recorded starts have in common. */
function essentialArguments(args: readonly string[]): string {
  return [SERVER_FLAGS, AGENT_FLAGS].reduce(
    (text, flags) => text.replace(flags.join(" "), "..."),
    args.join(" "),
  );
}

/** Starts at a time: each spends its time on starting a process. */
const AT_A_TIME = 3;

test("a start that fails", { concurrency: AT_A_TIME }, async (t) => {
  // One each, because two servers cannot have the same ports and the same socket, even for a moment.
  const freeMachines = await Promise.all(
    Array.from({ length: AT_A_TIME }, () => Machine.create(t)),
  );
  const run = async (program: ExecutableName, args: readonly string[]) => {
    const machine = freeMachines.pop() ?? assert.fail("more starts at a time than machines");
    const ended = await machine.run(program, args);
    freeMachines.push(machine);
    return ended;
  };
  const tests: Promise<void>[] = [];
  const listed = new Set<string>();

  for (const { binary, args, exit, stderr, stderr_last } of RECORDED) {
    const essential = essentialArguments(args);
    const program = binary === "proxy-server" ? "reachback-server" : "reachback-agent";
    const different = DIFFERENT[essential];
    const isOwnKind = !BY_FLAGS.test(stderr) || ONE_OF_EACH_KIND.includes(essential);
    if (different === undefined && !isOwnKind) continue;
    listed.add(essential);
    const title = different === undefined ? "as upstream does" : `in its own way: ${different.why}`;
    tests.push(
      t.test(`${program} ${essential || "without arguments"} ends ${title}`, async () => {
        const ended = await run(program, args);
        assert.equal(ended.code, different?.exit ?? exit, ended.stderr);
        if (different === undefined) {
          // Ours may say more, in parentheses.
          const report = reportOf(ended).map((line) => line.replace(/ \(line \d+: .*\)$/, ""));
          assert.equal(report[0], stderr);
          assert.equal(report.at(-1), stderr_last);
        } else if (different.error !== undefined) {
          assertReport(ended, different.error);
        }
      }),
    );
  }

  for (const { what, upstream, program, args, error } of OURS) {
    tests.push(
      t.test(`${program} does not start with ${what} (upstream ${upstream})`, async () => {
        const ended = await run(program, args);
        assertReport(ended, error);
        assert.equal(ended.code, 1);
        assert.equal(ended.stdout, "");
      }),
    );
  }

  await Promise.all(tests);
  const exceptions = [...Object.keys(DIFFERENT), ...ONE_OF_EACH_KIND];
  assert.deepEqual(
    exceptions.filter((essential) => !listed.has(essential)),
    [],
  );
});
