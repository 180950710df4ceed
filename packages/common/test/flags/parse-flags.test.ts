import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { FlagTable } from "../../src/flags/flag-table.ts";
import {
  boolType,
  durationType,
  float32Type,
  intType,
  labelSelectorType,
  stringListType,
  stringType,
} from "../../src/flags/flag-type.ts";
import { parseLabelSelector } from "../../src/flags/label-selector.ts";
import { parseFlags } from "../../src/flags/parse-flags.ts";
import { UsageError } from "../../src/flags/usage-error.ts";

const group = "Test";
const help = "For a test.";

const TABLE = {
  port: { type: intType, default: 8090, group, help },
  verbosity: { type: intType, default: 4, shorthand: "v", group, help },
  quiet: { type: boolType, default: false, shorthand: "q", group, help },
  "delete-file": { type: boolType, default: true, group, help },
  wait: { type: durationType, default: 1_000, group, help },
  rate: { type: float32Type, default: 0, group, help },
  name: { type: stringType, default: "", group, help, env: "TEST_NAME" },
  protos: { type: stringListType, default: ["h2"], group, help },
  "label-selector": {
    type: labelSelectorType,
    default: parseLabelSelector("a=b"),
    group,
    help,
  },
  label: {
    type: labelSelectorType,
    default: parseLabelSelector("a=b"),
    group,
    help,
    setsFlag: "label-selector",
    deprecated: "Use --label-selector instead",
  },
  help: { type: boolType, default: false, shorthand: "h", group, help },
  version: { type: boolType, default: false, group, help },
} as const satisfies FlagTable;

function unexpected(text: string): never {
  assert.fail(`unexpected output: ${text}`);
}

async function parse(argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const warnings: string[] = [];
  const parsed = await parseFlags(TABLE, {
    argv,
    env,
    onDeprecated: (line) => warnings.push(line),
  });
  return { ...parsed, warnings };
}

function refuses(argv: readonly string[], problem: string, env?: Record<string, string>) {
  return assert.rejects(parse(argv, env), new UsageError([problem]));
}

describe("reading a command line", () => {
  it("gives every flag its default when there is nothing to read", async () => {
    const { values, origins } = await parse([]);
    assert.equal(values.port, 8090);
    assert.equal(values["delete-file"], true);
    assert.deepEqual(values.protos, ["h2"]);
    assert.deepEqual(new Set(Object.values(origins)), new Set(["default"]));
  });

  it("says of each value whether flag, environment or default gave it", async () => {
    const { values, origins } = await parse(["--port=1"], { TEST_NAME: "from-env" });
    assert.deepEqual(
      [values.port, values.name, origins.port, origins.name, origins.wait],
      [1, "from-env", "flag", "env", "default"],
    );
  });

  it("prefers a flag to the environment, and the default to an empty variable", async () => {
    const given = await parse(["--name=flag"], { TEST_NAME: "env" });
    assert.deepEqual([given.values.name, given.origins.name], ["flag", "flag"]);
    const empty = await parse([], { TEST_NAME: "" });
    assert.equal(empty.origins.name, "default");
  });

  it("returns frozen values", async () => {
    const { values, origins } = await parse([]);
    assert.ok(Object.isFrozen(values) && Object.isFrozen(origins));
  });

  it("takes a value behind an equals sign or as the next argument", async () => {
    assert.equal((await parse(["--port=1"])).values.port, 1);
    assert.equal((await parse(["--port", "2"])).values.port, 2);
  });

  it("takes the next argument as a value whatever it looks like", async () => {
    assert.equal((await parse(["--name", "--port=5"])).values.name, "--port=5");
    assert.equal((await parse(["--name", "--"])).values.name, "--");
    assert.equal((await parse(["--port", "-5"])).values.port, -5);
    assert.equal((await parse(["-v", "-1"])).values.verbosity, -1);
  });

  it("keeps a text as it was written", async () => {
    const texts = [
      "",
      "=",
      "a=b=c",
      '"quoted"',
      "'quoted'",
      "0x10",
      "1e3",
      "1:2",
      " ",
      "a\nb",
      "no",
    ];
    for (const text of texts) {
      assert.equal((await parse([`--name=${text}`])).values.name, text);
      assert.equal((await parse(["--name", text])).values.name, text);
    }
  });

  it("sets a boolean by naming it, and never takes the next argument for one", async () => {
    assert.equal((await parse(["--quiet"])).values.quiet, true);
    assert.equal((await parse(["--quiet", "false"])).values.quiet, true);
    assert.equal((await parse(["--quiet=false"])).values.quiet, false);
    assert.equal((await parse(["--delete-file=F"])).values["delete-file"], false);
  });

  it("takes a letter's value in every way pflag does", async () => {
    for (const argv of [
      ["-v", "5"],
      ["-v=5"],
      ["-v5"],
      ["--verbosity=5"],
      ["-qv5"],
      ["-qv", "5"],
    ]) {
      assert.equal((await parse(argv)).values.verbosity, 5, argv.join(" "));
    }
    assert.equal((await parse(["-qv5"])).values.quiet, true);
    assert.equal((await parse(["-q=false"])).values.quiet, false);
  });

  it("lets the last occurrence win", async () => {
    assert.equal((await parse(["--port=1", "--quiet", "--port=2"])).values.port, 2);
    assert.equal((await parse(["--quiet", "--quiet=false"])).values.quiet, false);
  });

  it("ignores positional arguments, a lone dash, and all behind a double dash", async () => {
    const { values } = await parse(["run", "-", "", "--port=1", "x", "--", "--port=2", "--bogus"]);
    assert.equal(values.port, 1);
  });

  it("reads help and version like any flag", async () => {
    assert.equal((await parse(["-h"])).values.help, true);
    assert.equal((await parse(["--help", "--port=1"])).values.help, true);
    assert.equal((await parse(["--help=false"])).values.help, false);
    assert.equal((await parse(["--version"])).values.version, true);
  });

  it("takes names that yargs would read something into", async () => {
    const names = ["no-color", "a.b", "2", "camelCase", "x-y"];
    const table: FlagTable = Object.fromEntries(
      names.map((name) => [name, { type: stringType, default: "", group, help }]),
    );
    const argv = names.map((name) => `--${name}=<${name}>`);
    const { values } = await parseFlags(table, { argv, env: {}, onDeprecated: unexpected });
    assert.deepEqual(values, Object.fromEntries(names.map((name) => [name, `<${name}>`])));
  });
});

describe("lists", () => {
  const cases: readonly (readonly [argv: readonly string[], value: readonly string[]])[] = [
    [[], ["h2"]],
    [["--protos=a,b"], ["a", "b"]],
    [
      ["--protos=a", "--protos", "b,c"],
      ["a", "b", "c"],
    ],
    [["--protos="], []],
    [["--protos=", "--protos=a"], ["a"]],
    [["--protos=a", "--protos="], ["a"]],
    [["--protos=[]"], ["[]"]],
    [['--protos="a,b",c'], ["a,b", "c"]],
    [['--protos="a"'], ["a"]],
  ];
  for (const [argv, value] of cases) {
    it(`${argv.join(" ") || "nothing"} gives ${JSON.stringify(value)}`, async () => {
      assert.deepEqual((await parse(argv)).values.protos, value);
    });
  }
});

describe("a deprecated flag", () => {
  it("sets the flag it stands for, and says so each time", async () => {
    const { values, origins, warnings } = await parse(["--label=x=y", "--label=z"]);
    assert.equal(String(values["label-selector"]), "z");
    assert.equal(String(values.label), "z");
    assert.equal(origins["label-selector"], "flag");
    const line = "Flag --label has been deprecated, Use --label-selector instead";
    assert.deepEqual(warnings, [line, line]);
  });

  it("shares one variable with it: the last of the two wins", async () => {
    const older = await parse(["--label-selector=new", "--label=old"]);
    assert.equal(String(older.values["label-selector"]), "old");
    const newer = await parse(["--label=old", "--label-selector=new"]);
    assert.equal(String(newer.values["label-selector"]), "new");
  });

  it("is named in the error about its value", async () => {
    await refuses(
      ["--label=a in"],
      `invalid argument "a in" for "--label" flag: unable to parse requirement: found '' expected: '('`,
    );
  });
});

describe("a mistake on the command line", () => {
  const cases: readonly (readonly [argv: readonly string[], problem: string])[] = [
    [["--bogus"], "unknown flag: --bogus"],
    [["--bogus=1"], "unknown flag: --bogus"],
    [["--por=1"], "unknown flag: --por"],
    [["--no-quiet"], "unknown flag: --no-quiet"],
    [["--deleteFile"], "unknown flag: --deleteFile"],
    [["--delete.file"], "unknown flag: --delete.file"],
    [["--delete_file"], "unknown flag: --delete_file"],
    [["--Port=1"], "unknown flag: --Port"],
    [["--q"], "unknown flag: --q"],
    [["--__proto__=1"], "unknown flag: --__proto__"],
    [["---port=1"], "bad flag syntax: ---port=1"],
    [["--=1"], "bad flag syntax: --=1"],
    [["-z"], "unknown shorthand flag: 'z' in -z"],
    [["-qz"], "unknown shorthand flag: 'z' in -z"],
    [["-port=1"], "unknown shorthand flag: 'p' in -port=1"],
    [["-é"], "unknown shorthand flag: 'Ã' in -é"],
    [["-h="], "unknown shorthand flag: '=' in -="],
    [["--port"], "flag needs an argument: --port"],
    [["-v"], "flag needs an argument: 'v' in -v"],
    [["-qv"], "flag needs an argument: 'v' in -v"],
    [
      ["--port=abc"],
      'invalid argument "abc" for "--port" flag: strconv.ParseInt: parsing "abc": invalid syntax',
    ],
    [
      ["--port="],
      'invalid argument "" for "--port" flag: strconv.ParseInt: parsing "": invalid syntax',
    ],
    [
      ["--port=99999999999999999999"],
      'invalid argument "99999999999999999999" for "--port" flag: strconv.ParseInt: parsing "99999999999999999999": value out of range',
    ],
    [
      ["-v=abc"],
      'invalid argument "abc" for "-v, --verbosity" flag: strconv.ParseInt: parsing "abc": invalid syntax',
    ],
    [
      ["-v="],
      'invalid argument "=" for "-v, --verbosity" flag: strconv.ParseInt: parsing "=": invalid syntax',
    ],
    [
      ["--quiet=maybe"],
      'invalid argument "maybe" for "-q, --quiet" flag: strconv.ParseBool: parsing "maybe": invalid syntax',
    ],
    [
      ["--quiet="],
      'invalid argument "" for "-q, --quiet" flag: strconv.ParseBool: parsing "": invalid syntax',
    ],
    [["--wait=5"], 'invalid argument "5" for "--wait" flag: time: missing unit in duration "5"'],
    [
      ["--rate=x"],
      'invalid argument "x" for "--rate" flag: strconv.ParseFloat: parsing "x": invalid syntax',
    ],
    [
      ['--protos=a"b'],
      'invalid argument "a\\"b" for "--protos" flag: parse error on line 1, column 2: bare " in non-quoted field',
    ],
  ];
  for (const [argv, problem] of cases) {
    it(`${argv.join(" ")} is refused in pflag's words`, async () => {
      await refuses(argv, problem);
    });
  }

  it("is the first from the left, whatever its kind", async () => {
    await refuses(["--bogus", "--port=abc"], "unknown flag: --bogus");
    await refuses(
      ["--port=abc", "--bogus"],
      'invalid argument "abc" for "--port" flag: strconv.ParseInt: parsing "abc": invalid syntax',
    );
    await refuses(
      ["--port=1", "--wait=x", "--port=abc"],
      'invalid argument "x" for "--wait" flag: time: invalid duration "x"',
    );
  });

  it("is not forgiven for --help, nor for a later good value", async () => {
    await refuses(["--help", "--bogus"], "unknown flag: --bogus");
    await refuses(
      ["--wait=x", "--wait=1s"],
      'invalid argument "x" for "--wait" flag: time: invalid duration "x"',
    );
  });

  it("may be in the environment", async () => {
    const table = { port: { ...TABLE.port, env: "TEST_PORT" } };
    await assert.rejects(
      parseFlags(table, { argv: [], env: { TEST_PORT: "x" }, onDeprecated: unexpected }),
      new UsageError([
        'invalid argument "x" in environment variable TEST_PORT: strconv.ParseInt: parsing "x": invalid syntax',
      ]),
    );
  });

  it("never ends in anything but values or a UsageError", async () => {
    const argument = fc.oneof(
      fc.string(),
      fc.constantFrom("--port", "-v", "-q", "--protos", "--label=!a", "--", "--wait=1s", "--help"),
      fc.string().map((text) => `--${text}`),
      fc.string().map((text) => `--name=${text}`),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(argument, { maxLength: 6 }), async (argv) => {
        try {
          await parse(argv);
        } catch (error) {
          assert.ok(error instanceof UsageError, String(error));
          assert.equal(error.problems.length, 1);
        }
      }),
    );
  });

  it("is not made by any text for a text flag", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: "binary" }), async (text) => {
        assert.equal((await parse([`--name=${text}`, "--port", "1"])).values.name, text);
      }),
    );
  });
});
