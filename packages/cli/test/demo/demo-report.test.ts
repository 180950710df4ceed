import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  durationText,
  failureReport,
  progressLine,
  resultTable,
  setupLine,
} from "../../src/demo/demo-report.ts";
import type { DemoStep } from "../../src/demo/demo-step.ts";
import { PLAIN } from "../../src/demo/paint.ts";
import type { Paint } from "../../src/demo/paint.ts";
import type { StepResult } from "../../src/demo/perform-step.ts";

const STEP: DemoStep = {
  title: "pod request",
  frontends: "gRPC",
  nodes: ["node-b"],
  expected: "an answer",
  programs: [],
  run: () => Promise.resolve(""),
};

const GOOD: StepResult = { step: STEP, durationMs: 12.4, outcome: "200", failure: undefined };
const BAD: StepResult = {
  step: { ...STEP, title: "both nodes", frontends: "-", nodes: ["node-a", "node-b"] },
  durationMs: 1_250,
  outcome: "",
  failure: { expected: "an answer", got: "none" },
};

/** Marks what is painted, at no width that padding could take into account. */
const MARKS: Paint = {
  good: (text) => `<${text}>`,
  bad: (text) => `!${text}!`,
  faint: (text) => `(${text})`,
};

const LEGEND =
  "through: the server's frontend; agent: whose metrics counted the connections, and nobody else's";

describe("resultTable", () => {
  it("aligns its columns, times to the right", () => {
    assert.equal(
      resultTable([GOOD, BAD], PLAIN),
      `\
      what         through  agent    time  outcome
ok    pod request  gRPC     node-b  12 ms  200
FAIL  both nodes   -        both    1.3 s  expected an answer; got none

${LEGEND}
`,
    );
  });

  it("paints what is aligned already", () => {
    const lines = resultTable([GOOD, BAD], MARKS).split("\n");
    assert.equal(lines[0], "(      what         through  agent    time  outcome)");
    assert.equal(lines[1], "<ok  >  pod request  gRPC     node-b  12 ms  200");
    assert.match(lines[2] ?? "", /^!FAIL! {2}both nodes /);
  });

  it("continues a long outcome below itself, and breaks no word", () => {
    const path = `/${"x".repeat(80)}`;
    const outcome = `${"word ".repeat(16)}${path} end`;
    const table = resultTable([{ ...GOOD, outcome }], PLAIN);
    const [, first = "", second, third, fourth] = table.split("\n");
    const indent = " ".repeat(first.indexOf("word"));
    assert.ok(first.length <= 110 && first.length + " word".length > 110);
    assert.equal(second, `${indent}word word word`);
    assert.equal(third, indent + path);
    assert.equal(fourth, `${indent}end`);
  });
});

describe("progressLine and setupLine", () => {
  it("are as wide for every step, and name frontends where there are some", () => {
    const steps = [STEP, BAD.step];
    assert.equal(progressLine(GOOD, steps, PLAIN), "ok    pod request (gRPC)   12 ms\n");
    assert.equal(progressLine(BAD, steps, PLAIN), "FAIL  both nodes           1.3 s\n");
    assert.equal(setupLine(GOOD, steps, PLAIN), "ok    pod request (gRPC)   12 ms  200\n");
    assert.equal(
      setupLine(BAD, steps, PLAIN),
      "FAIL  both nodes           1.3 s  expected an answer; got none\n",
    );
  });
});

describe("failureReport", () => {
  it("shows what was expected, what came, and the ends of logs", () => {
    const server = { name: "server", ending: undefined, lastLines: () => ["one", "two"] };
    const agent = { name: "node-a", ending: "exit code 1", lastLines: () => [] };
    assert.equal(
      failureReport(BAD, [server, agent], PLAIN),
      `\
FAIL  both nodes
  expected: an answer
  got:      none
  server, end of its log:
    one
    two
  node-a (ended with exit code 1), end of its log:
    (empty)
`,
    );
  });

  it("is empty for what went well", () => {
    assert.equal(failureReport(GOOD, [], PLAIN), "");
  });
});

describe("durationText", () => {
  it("has milliseconds below a second", () => {
    const texts = [0.3, 12.6, 999.4, 999.6, 1_000, 12_345].map(durationText);
    assert.deepEqual(texts, ["0 ms", "13 ms", "999 ms", "1.0 s", "1.0 s", "12.3 s"]);
  });
});
