import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseSoakOptions } from "../../src/soak/soak-options.ts";

describe("parseSoakOptions", () => {
  it("means half an hour of 300 connections a second", async () => {
    assert.deepEqual(await parseSoakOptions([]), {
      minutes: 30,
      connectionsPerSecond: 300,
      seed: 1,
      workers: 1,
    });
    assert.deepEqual(
      await parseSoakOptions(["--minutes=3", "--rate=50", "--seed=7", "--workers=4"]),
      {
        minutes: 3,
        connectionsPerSecond: 50,
        seed: 7,
        workers: 4,
      },
    );
  });

  it("explains itself, and refuses what makes no sense", async () => {
    const help = await parseSoakOptions(["--help"]);
    assert.ok(typeof help === "string" && help.includes("--minutes"));
    await assert.rejects(parseSoakOptions(["--minutes=2"]), /--minutes 2: not a number of 3/);
    await assert.rejects(parseSoakOptions(["--minutes=x"]), /--minutes/);
    await assert.rejects(parseSoakOptions(["--rate=0"]), /--rate 0/);
    await assert.rejects(parseSoakOptions(["--seed=1.5"]), /--seed 1.5/);
    await assert.rejects(parseSoakOptions(["--workers=0"]), /--workers 0/);
    await assert.rejects(parseSoakOptions(["--hours=1"]), /hours/);
    await assert.rejects(parseSoakOptions(["now"]), /takes no arguments/);
  });
});
