import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

/** An empty folder that goes with the test. */
export function temporaryFolder(t: Pick<TestContext, "after">): string {
  const folder = mkdtempSync(join(tmpdir(), "reachback-cli-"));
  t.after(() => {
    rmSync(folder, { recursive: true });
  });
  return folder;
}
