import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { DEMO_ROWS } from "../../packages/cli/test/demo/demo-rows.ts";
import { statusOf, temporaryFolder, until } from "../support/cluster.ts";
import { commandsIn, readDocument } from "../support/documents.ts";
import { CHECKOUT, RunningProgram, runExecutable } from "../support/executable.ts";
import { freePorts } from "../support/free-ports.ts";
import type { EndedProgram } from "../support/executable.ts";

// README's commands, as they stand there; those with Docker are what test/compose does.

const README = readDocument("README.md").replace(/^## Docker Compose\n.*?(?=^## )/ms, "");
const SCRIPTS = (
  JSON.parse(readDocument("package.json")) as { scripts: Readonly<Record<string, string>> }
).scripts;
const hasCurl = spawnSync("curl", ["--version"]).status === 0;

/** The command that begins like this; each may be asked for once. */
const left = new Set(commandsIn(README));
function command(beginning: string): string {
  const found = [...left].find((text) => text.startsWith(beginning));
  assert.ok(found, `README has no command that begins with: ${beginning}`);
  left.delete(found);
  return found;
}

/** A shell that runs one command, and ends with all that the command has started. */
function startShell(t: TestContext, text: string, cwd: string): RunningProgram {
  const shell = new RunningProgram("sh", ["-c", text], { cwd, isGroup: true });
  t.after(() => {
    shell.signal("SIGKILL");
    return shell.ended;
  });
  return shell;
}

describe("README", () => {
  it("shows what `npm run demo` prints, which packages/cli/test/demo runs", () => {
    assert.equal(command("npm ci && npm run demo"), "npm ci && npm run demo");
    assert.equal(SCRIPTS["demo"], "node packages/cli/bin/reachback.js demo");
    const shown = /<!-- demo output -->\n\n```text\n(.*?)```/s.exec(README)?.[1] ?? "";
    for (const row of DEMO_ROWS) assert.match(shown, row);
    assert.equal(shown.match(/^ok/gm)?.length, DEMO_ROWS.length);
  });

  it("shows how to run these tests", () => {
    assert.equal(command("npm ci && npm test"), "npm ci && npm test");
    assert.equal(SCRIPTS["test"], "node scripts/test.mjs");
  });

  it("brings up a tunnel by hand", async (t) => {
    const folder = temporaryFolder(t);
    symlinkSync(join(CHECKOUT, "node_modules"), join(folder, "node_modules"));

    const certs = command("npx reachback certs");
    const server = command("npx reachback-server");
    const agent = command("npx reachback-agent");
    const request = command("curl");

    // Other programs may have the ports that README names, and its socket.
    const named = ["8090", "8091", "8092", "8093", "8094", "8095"];
    const ports = await freePorts(t, named.length);
    const portFor = (name: string) => ports[named.indexOf(name)] ?? 0;
    const here = (text: string) =>
      text
        .replaceAll(/:(809\d)\b/g, (_, port: string) => `:${portFor(port)}`)
        .replaceAll("/tmp/reachback.sock", join(folder, "reachback.sock"));
    const withFlags = (text: string, flags: Readonly<Record<string, string>>) =>
      Object.entries(flags).reduce(
        (start, [flag, port]) => `${start} --${flag}=${portFor(port)}`,
        here(text),
      );

    const made = await startShell(t, certs, folder).ended;
    assert.equal(made.code, 0, made.stderr);
    assert.match(made.stdout, /^Wrote 9 certificates to \S+\/certs, /);

    // Another agent's certificate and a renewed one, as certs/README.md has them.
    const more = readDocument("certs/README.md").match(/^npx reachback certs .*$/gm) ?? [];
    assert.equal(more.length, 2);
    for (const text of more) {
      const { code, stdout, stderr } = await startShell(t, text, folder).ended;
      assert.equal(code, 0, stderr);
      assert.match(stdout, /^Wrote a certificate to /);
    }

    const serverFlags = { "agent-port": "8091", "health-port": "8092", "admin-port": "8095" };
    const runningServer = startShell(t, withFlags(server, serverFlags), folder);
    await runningServer.said('"program.started"');
    const agentFlags = {
      "proxy-server-port": "8091",
      "health-server-port": "8093",
      "admin-server-port": "8094",
    };
    startShell(t, withFlags(agent, agentFlags), folder);
    const isReady = async (port: string) =>
      (await statusOf(portFor(port), "/readyz").catch(() => 0)) === 200;
    await until(() => isReady("8092"));
    await until(() => isReady("8093"));

    if (!hasCurl) {
      t.skip("needs the curl command");
      return;
    }
    const answer = await startShell(t, here(request), folder).ended;
    assert.equal(answer.code, 0, answer.stderr);
    assert.equal(answer.stdout, "ok");
  });

  it("has no command that is not run here", () => {
    assert.deepEqual([...left], []);
  });

  it("names only flags that --help explains", async () => {
    const pages = await Promise.all([help("reachback-server"), help("reachback-agent")]);
    const text = pages.map(({ stdout }) => stdout).join("\n");
    const tables = README.slice(README.indexOf("### Flags whose default"));
    const flags = new Set(Array.from(tables.matchAll(/`--([a-z-]+)`/g), ([, flag = ""]) => flag));
    assert.ok(flags.size > 10);
    for (const flag of flags) assert.match(text, new RegExp(`--${flag}(?: |$)`, "m"), flag);
  });
});

function help(name: "reachback-server" | "reachback-agent"): Promise<EndedProgram> {
  return runExecutable(name, ["--help"]);
}

describe("every document", () => {
  for (const name of ["README.md", "CONTRIBUTING.md", "docs/benchmarks.md", "certs/README.md"]) {
    it(`${name} names only scripts that package.json has`, () => {
      const named = Array.from(readDocument(name).matchAll(/npm run ([\w:]+)/g), ([, it]) => it);
      assert.deepEqual(
        named.filter((script) => SCRIPTS[script ?? ""] === undefined),
        [],
      );
    });
  }

  it("links only to files that are there", () => {
    for (const name of ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs/install.md"]) {
      const links = Array.from(
        readDocument(name).matchAll(/\]\((?!https?:)([^)#]+)\)/g),
        ([, to]) => to,
      );
      for (const to of links)
        assert.ok(existsSync(join(CHECKOUT, dirname(name), to ?? "")), `${name}: ${to}`);
    }
  });
});
