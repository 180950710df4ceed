// Runs test files with node:test: `npm test`, `npm test -- <path prefix or file>...`. Options are
// node's, but for --base-image=NAME, which test/compose builds its images on.
//
// Node 20 neither expands globs after `--test` nor strips types, so the files
// are listed here and the tsx loader is added where Node cannot do it itself.
// Tests import the sources (export condition `@reachback/source`), not the
// build; the executables they start run the build.

import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Suites of their own script, not part of `npm test`. */
const SEPARATE_SUITES = ["test/fault", "test/ha", "test/compose"];

const BASE_IMAGE_OPTION = "--base-image=";

const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith("-"));
const options = process.argv.slice(2).filter((argument) => argument.startsWith("-"));
const runnerOptions = options.filter((option) => !option.startsWith(BASE_IMAGE_OPTION));
const baseImage = options.find((option) => option.startsWith(BASE_IMAGE_OPTION));
const env = { ...process.env };
if (baseImage !== undefined) env.BASE_IMAGE = baseImage.slice(BASE_IMAGE_OPTION.length);

function testFilesBelow(folder) {
  return readdirSync(join(root, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".test.ts"))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => !file.includes("node_modules"));
}

const files = ["packages", "demo", "test"]
  .flatMap(testFilesBelow)
  .filter((file) =>
    wanted.length > 0
      ? wanted.some((prefix) => file.startsWith(prefix))
      : !SEPARATE_SUITES.some((suite) => file.startsWith(suite)),
  )
  .sort();

const isSeparateSuite = SEPARATE_SUITES.some((suite) =>
  files.some((file) => file.startsWith(suite)),
);

if (files.length === 0) {
  console.error(`no test file matches ${wanted.join(" ")}`);
  process.exit(1);
}

const [major, minor] = process.versions.node.split(".").map(Number);
const stripsTypes = major > 22 || (major === 22 && minor >= 18);
const child = spawn(
  process.execPath,
  [
    "--conditions=@reachback/source",
    ...(stripsTypes ? [] : ["--import", "tsx"]),
    "--test",
    // A test that hangs fails by name instead of holding the run up.
    `--test-timeout=${isSeparateSuite ? 900_000 : 300_000}`,
    // Suites of their own have deadlines to meet, for which all cores are theirs. Of the others much
    // waits; but Node leaves one core free, which on two cores is half of them.
    `--test-concurrency=${isSeparateSuite ? 1 : availableParallelism()}`,
    // Says at the end again what failed, where the one that reads a log looks first.
    ...(runnerOptions.some((option) => option.startsWith("--test-reporter"))
      ? []
      : ["--test-reporter=spec"]),
    ...runnerOptions,
    ...files,
  ],
  { cwd: root, env, stdio: "inherit" },
);
child.on("exit", (code, signal) => {
  process.exit(signal === null ? (code ?? 1) : 1);
});
