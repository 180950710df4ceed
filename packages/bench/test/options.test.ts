import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OptionsProblem, parseOptions } from "../src/options.ts";
import type { BenchOptions } from "../src/options.ts";
import { FULL_PLAN, QUICK_PLAN } from "../src/plan.ts";

async function optionsOf(...argv: string[]): Promise<BenchOptions> {
  const parsed = await parseOptions(argv, "1.2.3");
  assert.equal(parsed.kind, "run");
  return (parsed as { options: BenchOptions }).options;
}

const scenarioNames = ({ scenarios }: BenchOptions) => scenarios.map(({ name }) => name);

describe("parseOptions", () => {
  it("measures everything in full when told nothing", async () => {
    const options = await optionsOf();
    assert.deepEqual(scenarioNames(options), [
      "bulk",
      "echo",
      "dials",
      "idle",
      "stalled",
      "beside",
      "delay",
    ]);
    assert.equal(options.plan, FULL_PLAN);
    assert.equal(options.endsShareCores, false);
    assert.ok(!options.subjectIds.includes("peer"));
    assert.equal(options.jsonPath, undefined);
    assert.equal(options.svgPath, undefined);
  });

  it("leaves out what takes long with --quick, unless it is named", async () => {
    const quick = await optionsOf("--quick");
    assert.deepEqual(scenarioNames(quick), ["bulk", "echo", "dials", "idle", "stalled"]);
    assert.equal(quick.plan, QUICK_PLAN);
    assert.deepEqual(scenarioNames(await optionsOf("--quick", "--scenario=delay")), ["delay"]);
  });

  it("takes names repeated or with commas, and keeps its own order", async () => {
    const options = await optionsOf("--scenario", "echo,bulk", "--scenario", "idle");
    assert.deepEqual(scenarioNames(options), ["bulk", "echo", "idle"]);
    const { subjectIds } = await optionsOf("--subject=reachback", "--subject=relay,direct");
    assert.deepEqual(subjectIds, ["direct", "relay", "reachback"]);
  });

  it("measures as many rounds as asked for, however long they take", async () => {
    const { plan } = await optionsOf("--quick", "--rounds=7");
    assert.equal(plan.rounds, 7);
    assert.equal(plan.stalledRounds, 7);
    assert.equal(plan.budgetMs, undefined);
  });

  it("lets both ends use all cores only if asked to", async () => {
    assert.equal((await optionsOf("--share-cores")).endsShareCores, true);
  });

  it("scales sizes and durations, and leaves rounds alone", async () => {
    const { plan } = await optionsOf("--scale=0.5");
    assert.equal(plan.bulkBytes, FULL_PLAN.bulkBytes / 2);
    assert.equal(plan.echoMs, FULL_PLAN.echoMs / 2);
    assert.equal(plan.rounds, FULL_PLAN.rounds);
    assert.deepEqual(plan.echoConnections, FULL_PLAN.echoConnections);
  });

  it("measures a peer when it is told where", async () => {
    const options = await optionsOf("--peer-socket=/run/p.sock", "--peer-pids=12,345");
    assert.deepEqual(options.peer, { socketPath: "/run/p.sock", pids: [12, 345] });
    assert.ok(options.subjectIds.includes("peer"));
  });

  it("compares with another path that takes part, if told to", async () => {
    assert.equal((await optionsOf()).referenceId, undefined);
    assert.equal((await optionsOf("--reference=openssh")).referenceId, "openssh");
    for (const argv of [
      ["--reference=peer"],
      ["--reference=nothing"],
      ["--reference=relay", "--subject=direct,openssh"],
    ]) {
      await assert.rejects(parseOptions(argv, "1.2.3"), OptionsProblem, argv.join(" "));
    }
    const withPeer = await optionsOf("--peer-socket=/run/p.sock", "--reference=peer");
    assert.equal(withPeer.referenceId, "peer");
  });

  it("takes the last of a path that is given twice", async () => {
    const options = await optionsOf("--json=a", "--json=b", "--svg=c");
    assert.equal(options.jsonPath, "b");
    assert.equal(options.svgPath, "c");
  });

  it("has help and a version", async () => {
    const help = await parseOptions(["--help"], "1.2.3");
    assert.equal(help.kind, "text");
    assert.match((help as { text: string }).text, /--peer-socket/);
    assert.deepEqual(await parseOptions(["--version"], "1.2.3"), { kind: "text", text: "1.2.3" });
  });

  const refused: readonly [string[], RegExp][] = [
    [["--scenario=bulky"], /--scenario bulky: there is only bulk, echo/],
    [["--subject=ssh"], /--subject ssh: there is only direct/],
    [["--rounds=0"], /--rounds 0: not a number above 0/],
    [["--rounds=1.5"], /--rounds 1.5: not a whole number/],
    [["--rounds=many"], /--rounds many: not a number/],
    [["--scale=-1"], /--scale -1: not a number above 0/],
    [["--peer-pids=1"], /--peer-pids needs --peer-socket/],
    [["--peer-socket=/p", "--peer-pids=1,x"], /x is no process id/],
    [["--fast"], /Unknown argument: fast/],
    [["bulk"], /takes no arguments, only options|Unknown argument: bulk/],
    [["--json"], /json/],
  ];
  for (const [argv, message] of refused) {
    it(`refuses ${argv.join(" ")}`, async () => {
      await assert.rejects(
        parseOptions(argv, "1.2.3"),
        (error) => error instanceof OptionsProblem && message.test(error.message),
      );
    });
  }
});
