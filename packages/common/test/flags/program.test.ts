import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FlagTable, ParsedFlags } from "../../src/flags/flag-table.ts";
import { boolType, intType, stringListType, stringType } from "../../src/flags/flag-type.ts";
import { UsageError } from "../../src/flags/usage-error.ts";
import { startProgram } from "../../src/program.ts";
import type { Program } from "../../src/program.ts";
import { systemRandom } from "../../src/random.ts";

const FLAGS = {
  port: {
    type: intType,
    placeholder: "port",
    default: 8090,
    group: "Listening",
    help: "Where to listen.",
  },
  id: {
    type: stringType,
    default: "",
    defaultText: "a random UUID",
    group: "Listening",
    help: "Who this is.",
  },
  protos: { type: stringListType, default: [], group: "Listening", help: "What to offer." },
  mode: { type: stringType, default: "grpc", group: "Other things", help: "How to talk." },
  secret: { type: boolType, default: false, isHidden: true, group: "Listening", help: "Shh." },
  old: {
    type: boolType,
    default: false,
    deprecated: "Do without",
    group: "Listening",
    help: "Was used.",
  },
} as const satisfies FlagTable;

const PROGRAM: Program<typeof FLAGS, { readonly port: number }> = {
  name: "test-program",
  version: "1.2.3",
  summary: "Is there to be tested.",
  examples: "  test-program --port=1 \\\n    --mode=x",
  flags: FLAGS,
  resolve({ values }: ParsedFlags<typeof FLAGS>) {
    if (values.port === 13) throw new UsageError(["port 13 is bad", "so is the day"]);
    return { port: values.port };
  },
};

async function start(argv: readonly string[], run = () => Promise.resolve(0)) {
  const output = { stdout: "", stderr: "", code: -1 };
  output.code = await startProgram(
    PROGRAM,
    {
      argv,
      env: {},
      random: systemRandom,
      fileExists: () => true,
      memoryLimitBytes: () => 1024 * 1024 * 1024,
      stdout: (text) => {
        output.stdout += text;
      },
      stderr: (text) => {
        output.stderr += text;
      },
    },
    run,
  );
  return output;
}

const USAGE = 'Usage:\n  test-program [flags]\n\nRun "test-program --help" for all flags.\n\n';

describe("starting a program", () => {
  it("runs it with the options and returns its exit code", async () => {
    const seen: object[] = [];
    const code = await startProgram(
      PROGRAM,
      {
        argv: ["--port=7"],
        env: {},
        random: systemRandom,
        fileExists: () => true,
        memoryLimitBytes: () => 1024 * 1024 * 1024,
        stdout: (text) => assert.fail(text),
        stderr: (text) => assert.fail(text),
      },
      (options) => {
        seen.push(options);
        return Promise.resolve(3);
      },
    );
    assert.deepEqual([code, seen], [3, [{ port: 7 }]]);
  });

  it("prints name and version for --version, and does not run", async () => {
    const run = () => assert.fail("must not run");
    assert.deepEqual(await start(["--version", "--port=13"], run), {
      stdout: "test-program 1.2.3\n",
      stderr: "",
      code: 0,
    });
  });

  it("prints help on standard output for --help and -h, and does not run", async () => {
    const run = () => assert.fail("must not run");
    const long = await start(["--help"], run);
    assert.deepEqual([long.stderr, long.code], ["", 0]);
    assert.deepEqual(await start(["-h", "--port=13"], run), long);
  });

  it("groups the flags in help, with placeholders and defaults as Go writes them", async () => {
    const { stdout } = await start(["-h"]);
    assert.equal(
      stdout,
      [
        "Usage: test-program [flags]",
        "",
        "Is there to be tested.",
        "",
        "Listening:",
        "      --port <port>    Where to listen. (default 8090)",
        "      --id <text>      Who this is. (default: a random UUID)",
        "      --protos <list>  What to offer.",
        "",
        "Other things:",
        '      --mode <text>  How to talk. (default "grpc")',
        "",
        "Other:",
        "  -h, --help     Print this text and exit.",
        "      --version  Print the program's name and version and exit.",
        "",
        "Examples:",
        "",
        "  test-program --port=1 \\",
        "    --mode=x",
        "",
      ].join("\n"),
    );
  });

  it("reports a mistake on the command line as upstream does", async () => {
    assert.deepEqual(await start(["--bogus"]), {
      stdout: "",
      stderr: `Error: unknown flag: --bogus\n${USAGE}error: unknown flag: --bogus\n`,
      code: 1,
    });
  });

  it("reports every problem with the options, and the first one again at the end", async () => {
    const { stderr, code } = await start(["--port=13"]);
    assert.equal(
      stderr,
      `Error: port 13 is bad\nError: so is the day\n${USAGE}error: port 13 is bad\n`,
    );
    assert.equal(code, 1);
  });

  it("reports in the same way what it fails with while it runs", async () => {
    const { stderr, code } = await start([], () => Promise.reject(new Error("port is busy")));
    assert.equal(stderr, `Error: port is busy\n${USAGE}error: port is busy\n`);
    assert.equal(code, 1);
  });

  it("mentions a deprecated flag before anything else, and takes it", async () => {
    const { stderr, code } = await start(["--old", "--port=13"]);
    assert.match(stderr, /^Flag --old has been deprecated, Do without\nError: port 13 is bad\n/);
    assert.equal(code, 1);
    assert.equal((await start(["--old"])).code, 0);
  });
});
