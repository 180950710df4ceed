import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { systemFileExists } from "../../src/file-exists.ts";

const THIS_FILE = fileURLToPath(import.meta.url);

describe("whether a file exists", () => {
  it("is yes for a file and for a folder", () => {
    assert.equal(systemFileExists(THIS_FILE), true);
    assert.equal(systemFileExists("/"), true);
  });

  it("is no where there is nothing", () => {
    assert.equal(systemFileExists(`${THIS_FILE}.gone`), false);
    assert.equal(systemFileExists("/no/such/folder/file"), false);
  });

  it("is yes where it cannot be told, so that opening it gives the reason", () => {
    assert.equal(systemFileExists(`${THIS_FILE}/below-a-file`), true);
    assert.equal(systemFileExists("a\0b"), true);
  });
});
