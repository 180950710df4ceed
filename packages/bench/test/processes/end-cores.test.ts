import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";
import { ENDS, endCores, onCores, listedCores, splitCores } from "../../src/processes/end-cores.ts";

describe("the cores of the two ends", () => {
  it("are half of those there are, each", () => {
    assert.deepEqual(splitCores("0-1"), { near: "0", far: "1" });
    assert.deepEqual(splitCores("0-3,8"), { near: "0,1", far: "2,3,8" });
    assert.deepEqual(splitCores("5,7"), { near: "5", far: "7" });
  });

  it("are the same where there are not two", () => {
    assert.equal(splitCores("3"), undefined);
    assert.equal(splitCores("0"), undefined);
  });

  const cores = endCores();
  it("are those that its processes run on", { skip: cores === undefined }, () => {
    for (const end of ENDS) {
      const [command, args] = onCores(cores?.[end], "grep", [
        "Cpus_allowed_list",
        "/proc/self/status",
      ]);
      const [, list = ""] = execFileSync(command, args, { encoding: "utf8" }).trim().split(/\s+/);
      assert.equal(listedCores(list).join(","), cores?.[end]);
    }
  });
});
