import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { refuseExisting, writeFiles } from "../../src/certs/write-files.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const KEEP = { overwrite: false };
const REPLACE = { overwrite: true };

function modeOf(path: string): number {
  return statSync(path).mode & 0o777;
}

describe("writeFiles", () => {
  it("makes folders as needed, and gives each file its mode whatever the umask", (t) => {
    const folder = temporaryFolder(t);
    const key = join(folder, "a/b/key");
    const old = process.umask(0);
    try {
      writeFiles([{ path: key, text: "secret", mode: 0o600 }], KEEP);
    } finally {
      process.umask(old);
    }
    assert.equal(readFileSync(key, "utf8"), "secret");
    assert.equal(modeOf(key), 0o600);
  });

  it("removes what it began when a file turns out to be there", (t) => {
    const folder = temporaryFolder(t);
    const [first, second] = [join(folder, "first"), join(folder, "second")];
    writeFileSync(second, "precious");
    const files = [first, second].map((path) => ({ path, text: "new", mode: 0o600 }));
    assert.throws(() => {
      writeFiles(files, KEEP);
    }, /EEXIST/);
    assert.deepEqual(readdirSync(folder), ["second"]);
    assert.equal(readFileSync(second, "utf8"), "precious");
  });

  it("removes what it began when a folder cannot be made, and replaces nothing", (t) => {
    const folder = temporaryFolder(t);
    const first = join(folder, "first");
    writeFileSync(first, "precious");
    const files = [first, join(folder, "first/x")].map((path) => {
      return { path, text: "new", mode: 0o600 };
    });
    assert.throws(() => {
      writeFiles(files, REPLACE);
    }, /ENOTDIR|EEXIST/);
    assert.deepEqual(readdirSync(folder), ["first"]);
    assert.equal(readFileSync(first, "utf8"), "precious");
  });

  it("does not follow a link that is in the way", (t) => {
    const folder = temporaryFolder(t);
    const [link, target] = [join(folder, "link"), join(folder, "target")];
    symlinkSync(target, link);
    const files = [{ path: link, text: "secret", mode: 0o600 }];
    assert.throws(() => {
      writeFiles(files, KEEP);
    }, /EEXIST/);
    writeFiles(files, REPLACE);
    assert.equal(existsSync(target), false);
    assert.equal(readFileSync(link, "utf8"), "secret");
  });

  it("replaces a file together with its mode, and clears what a killed run left", (t) => {
    const folder = temporaryFolder(t);
    const path = join(folder, "key");
    writeFileSync(path, "old");
    chmodSync(path, 0o666);
    writeFileSync(`${path}.new`, "left behind");
    writeFiles([{ path, text: "secret", mode: 0o600 }], REPLACE);
    assert.equal(modeOf(path), 0o600);
    assert.deepEqual(readdirSync(folder), ["key"]);
  });
});

describe("refuseExisting", () => {
  it("names every file that is there, and folders too", (t) => {
    const folder = temporaryFolder(t);
    const [file, sub, none] = [join(folder, "file"), join(folder, "sub"), join(folder, "none")];
    writeFileSync(file, "");
    mkdirSync(sub);
    refuseExisting([none]);
    assert.throws(
      () => {
        refuseExisting([file, none, sub]);
      },
      {
        message: `nothing was written, because these files exist (--force replaces them): ${file}, ${sub}`,
      },
    );
  });
});
