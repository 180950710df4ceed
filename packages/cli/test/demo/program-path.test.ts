import assert from "node:assert/strict";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { programPath } from "../../src/demo/program-path.ts";
import { temporaryFolder } from "../certs/temporary-folder.ts";

describe("programPath", () => {
  it("finds the programs of this repository", () => {
    const server = programPath(import.meta.resolve("@reachback/server"), "reachback-server");
    assert.match(server, /\/packages\/server\/bin\/reachback-server\.js$/);
    assert.ok(existsSync(server));
  });

  it("finds them from an entry point that has not been built", (t) => {
    const folder = temporaryFolder(t);
    mkdirSync(join(folder, "dist"));
    writeFileSync(join(folder, "package.json"), '{ "bin": { "x": "./bin/x.js" } }');
    const entryPoint = pathToFileURL(join(folder, "dist/index.js")).href;
    assert.equal(programPath(entryPoint, "x"), join(folder, "bin/x.js"));
  });

  it("says so if there is no such program", () => {
    assert.throws(() => programPath("file:///nowhere/dist/index.js", "x"), {
      message: "the package at /nowhere/dist/index.js has no program x",
    });
  });
});
