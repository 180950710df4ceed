import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { descendantsOf } from "../../src/processes/process-tree.ts";
import { readUsage, resetPeakMemory } from "../../src/processes/process-usage.ts";

const skip = process.platform === "linux" ? false : "there is no /proc";

describe("readUsage", { skip }, () => {
  it("sees CPU time being used", () => {
    const before = readUsage(process.pid)!;
    const startedAtMs = performance.now();
    while (performance.now() - startedAtMs < 60);
    const usedSeconds = readUsage(process.pid)!.cpuSeconds - before.cpuSeconds;
    assert.ok(usedSeconds > 0.01, `${usedSeconds} s`);
  });

  it("sees memory, and its peak once it is gone", () => {
    const before = readUsage(process.pid)!;
    assert.ok(before.anonymousBytes > 1e6);
    assert.ok(before.peakBytes > before.anonymousBytes);
    const ballast = Buffer.alloc(64 * 1024 * 1024, 1);
    const withBallast = readUsage(process.pid)!;
    assert.ok(withBallast.anonymousBytes > before.anonymousBytes + 60e6);
    assert.ok(withBallast.peakBytes > 60e6);
    assert.equal(ballast[0], 1);
  });

  it("can start over with the peak", async (t) => {
    const code =
      "let b = Buffer.alloc(2 ** 27, 1); b = null; gc(); console.log(); setInterval(() => {}, 1e6)";
    const child = spawn(process.execPath, ["--expose-gc", "-e", code]);
    t.after(() => child.kill());
    await once(child.stdout, "data");
    const peakBytes = readUsage(child.pid!)!.peakBytes;
    assert.ok(peakBytes > 2 ** 27);
    resetPeakMemory(child.pid!);
    assert.ok(readUsage(child.pid!)!.peakBytes < peakBytes);
  });

  it("has nothing of a process that is gone", async () => {
    const child = spawn(process.execPath, ["-e", ""]);
    await once(child, "exit");
    assert.equal(readUsage(child.pid!), undefined);
  });
});

describe("descendantsOf", { skip }, () => {
  it("finds children and their children", async (t) => {
    const child = spawn("sh", ["-c", "sleep 30 & echo started; wait"]);
    const grandchildren = () => descendantsOf(child.pid!);
    t.after(() => {
      for (const pid of grandchildren()) process.kill(pid);
      child.kill();
    });
    await once(child.stdout, "data");
    assert.equal(grandchildren().length, 1);
    assert.ok(descendantsOf(process.pid).includes(child.pid!));
  });
});
