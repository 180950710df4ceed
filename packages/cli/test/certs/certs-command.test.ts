import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { loadKeyPair, systemClock } from "@reachback/common";
import { createTestPki } from "../../../../test/support/pki.ts";
import { runReachback } from "../cli-run.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const USAGE = 'Run "reachback --help" for usage.\n';

describe("reachback certs", () => {
  it("writes to certs/ of the current folder, and says what it wrote", async (t) => {
    const cwd = temporaryFolder(t);
    const flags = ["--server-san=a.example,b.example", "--server-san", "10.0.0.9", "--days=30"];
    const { exitCode, stdout, stderr } = await runReachback(["certs", ...flags], cwd);
    assert.equal(stderr, "");
    assert.equal(exitCode, 0);
    assert.deepEqual(readdirSync(join(cwd, "certs")).sort(), ["agent", "frontend", "kubelet"]);
    assert.equal(
      stdout,
      `Wrote 9 certificates to ${cwd}/certs, with a key (.key) beside each that only you can read.

file                 for     subject                        days left  names
frontend/ca.crt      CA      Reachback frontend CA          3650       -
agent/ca.crt         CA      Reachback agent CA             3650       -
kubelet/ca.crt       CA      Reachback kubelet CA           3650       -
frontend/server.crt  server  reachback-server               30         localhost, 127.0.0.1, ::1, kubernetes and 7 more
frontend/client.crt  client  reachback-frontend-client      30         -
agent/server.crt     server  reachback-server               30         localhost, 127.0.0.1, ::1, kubernetes and 7 more
agent/client.crt     client  reachback-agent                30         -
kubelet/server.crt   server  system:node:kubelet            30         localhost, 127.0.0.1, ::1
kubelet/client.crt   client  kube-apiserver-kubelet-client  30         -
`,
    );

    const again = await runReachback(["certs"], cwd);
    assert.equal(again.exitCode, 1);
    assert.match(again.stderr, /^Error: nothing was written, because these files exist .*\n$/);
    const more = await runReachback(["certs", "agent", "--name=node-a", "--san=::2"], cwd);
    assert.equal(
      more.stdout,
      `Wrote a certificate to ${cwd}/certs, with a key (.key) beside each that only you can read.

file              for     subject  days left  names
agent/node-a.crt  client  node-a   365        node-a, ::2
`,
    );
  });

  it("renews one certificate with --force, in the folder that is named", async (t) => {
    const folder = temporaryFolder(t);
    const { agentCa } = createTestPki();
    mkdirSync(join(folder, "agent"));
    writeFileSync(join(folder, "agent/ca.crt"), agentCa.cert);
    writeFileSync(join(folder, "agent/ca.key"), agentCa.key);
    writeFileSync(join(folder, "agent/client.key"), "old");
    const { exitCode } = await runReachback(["certs", "agent", "--force", `--out=${folder}`]);
    assert.equal(exitCode, 0);
    loadKeyPair(join(folder, "agent/client.crt"), join(folder, "agent/client.key"), systemClock);
  });

  const mistakes: readonly (readonly [argv: string, stderr: string])[] = [
    ["certs --name=x", `Error: --name needs a role\n${USAGE}`],
    ["certs --san=x", `Error: --san needs a role\n${USAGE}`],
    ["certs agent --server-san=x", `Error: --server-san is not for a single role\n${USAGE}`],
    ["certs agent --kubelet-san=x", `Error: --kubelet-san is not for a single role\n${USAGE}`],
    ["certs agent --ca-days=1", `Error: --ca-days is not for a single role\n${USAGE}`],
    ["certs --days=0", 'Error: "0" is not a number of days from 1 to 36500\n'],
    ["certs --ca-days=1.5", 'Error: "1.5" is not a number of days from 1 to 36500\n'],
    ["certs --days=x", 'Error: "x" is not a number of days from 1 to 36500\n'],
    ["certs --out=a --out=b", "Error: a flag that takes one value was given several: a, b\n"],
    ["certs --out=", "Error: a flag that takes a value was given an empty one\n"],
    ["certs --bogus", `Error: Unknown argument: bogus\n${USAGE}`],
    ["certs --no-force", `Error: Unknown argument: no-force\n${USAGE}`],
    ["certs agent more", `Error: Unknown argument: more\n${USAGE}`],
    ["certs --server-san=a_b!", 'Error: "a_b!" is neither an IP address nor a DNS name\n'],
    [
      "certs agent",
      'Error: there is no agent CA at /nowhere/certs/agent/ca.crt; "reachback certs" makes one\n',
    ],
  ];
  for (const [argv, stderr] of mistakes) {
    it(`refuses "${argv}", and writes nothing`, async () => {
      const run = await runReachback(argv.split(" "));
      assert.deepEqual(run, { exitCode: 1, stdout: "", stderr });
      assert.equal(existsSync("/nowhere"), false);
    });
  }

  it("refuses an unknown role, and names those there are", async () => {
    const { exitCode, stderr } = await runReachback(["certs", "nope"]);
    assert.equal(exitCode, 1);
    assert.match(
      stderr,
      /"nope", Choices: "frontend-server", "frontend-client", "agent-server", "agent"/,
    );
  });

  it("explains itself", async () => {
    const { exitCode, stdout } = await runReachback(["certs", "--help"]);
    assert.equal(exitCode, 0);
    for (const flag of ["--out", "--force", "--server-san", "--kubelet-san", "--name", "--days"]) {
      assert.ok(stdout.includes(flag), flag);
    }
  });
});
