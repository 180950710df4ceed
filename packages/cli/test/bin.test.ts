import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, realpathSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { temporaryFolder } from "./certs/temporary-folder.ts";

const STUBS = [
  "packages/cli/bin/reachback.js",
  "packages/server/bin/reachback-server.js",
  "packages/agent/bin/reachback-agent.js",
];
const root = fileURLToPath(new URL("../../../", import.meta.url));

/** A copy of the stub in a checkout of its own, with `main` as its build. */
function install(t: TestContext, stub: string, main: string | undefined) {
  const copyRoot = realpathSync(temporaryFolder(t));
  const copy = join(copyRoot, stub);
  mkdirSync(join(copy, "../../dist"), { recursive: true });
  mkdirSync(join(copy, ".."), { recursive: true });
  copyFileSync(join(root, stub), copy);
  writeFileSync(join(copy, "../../package.json"), '{ "type": "module" }');
  if (main !== undefined) writeFileSync(join(copy, "../../dist/main.js"), main);
  return { copyRoot, run: () => spawnSync(process.execPath, [copy, "x"], { encoding: "utf8" }) };
}

for (const stub of STUBS) {
  const program = basename(stub, ".js");

  describe(stub, () => {
    it("can be executed", () => {
      assert.equal(statSync(join(root, stub)).mode & 0o111, 0o111);
    });

    it("runs the build", (t) => {
      const { run } = install(
        t,
        stub,
        "process.stdout.write(process.argv[2]); process.exitCode = 3;",
      );
      const { status, stdout } = run();
      assert.equal(stdout, "x");
      assert.equal(status, 3);
    });

    it("says how to make the build if there is none", (t) => {
      const { copyRoot, run } = install(t, stub, undefined);
      const { status, stdout, stderr } = run();
      assert.equal(status, 1);
      assert.equal(stdout, "");
      const [first, second] = stderr.split("\n");
      assert.match(first ?? "", new RegExp(`^${program} is not built: Cannot find module `));
      assert.equal(
        second,
        `Run \`npm ci\`, or \`npm run build\` if dependencies are installed, in ${copyRoot}/`,
      );
    });

    it("says the same if a dependency is missing", (t) => {
      const { run } = install(t, stub, 'import "no-such-package-of-ours";');
      const { status, stderr } = run();
      assert.equal(status, 1);
      assert.match(stderr, /is not built: Cannot find package 'no-such-package-of-ours'/);
    });

    it("hides no other error of the program", (t) => {
      const { run } = install(t, stub, 'throw new TypeError("a bug");');
      const { status, stderr } = run();
      assert.equal(status, 1);
      assert.match(stderr, /TypeError: a bug/);
    });
  });
}
