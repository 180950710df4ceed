import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FlagTable } from "../../src/flags/flag-table.ts";
import { KLOG_FLAGS, resolveLoggingOptions } from "../../src/flags/klog-flags.ts";
import { parseFlags } from "../../src/flags/parse-flags.ts";
import { UsageError } from "../../src/flags/usage-error.ts";

function parse(argv: readonly string[]) {
  return parseFlags(KLOG_FLAGS, { argv, env: {}, onDeprecated: (line) => assert.fail(line) });
}

/** Upstream's logging flags: name, type, default. Changing one is a breaking change. */
const UPSTREAM: readonly (readonly [name: string, type: string, defaultText: string])[] = [
  ["add-dir-header", "bool", "false"],
  ["alsologtostderr", "bool", "false"],
  ["alsologtostderrthreshold", "severity", "0"],
  ["legacy-stderr-threshold-behavior", "bool", "true"],
  ["log-backtrace-at", "traceLocation", ":0"],
  ["log-dir", "string", ""],
  ["log-file", "string", ""],
  ["log-file-max-size", "uint", "1800"],
  ["logtostderr", "bool", "true"],
  ["one-output", "bool", "false"],
  ["skip-headers", "bool", "false"],
  ["skip-log-headers", "bool", "false"],
  ["stderrthreshold", "severity", "2"],
  ["v", "Level", "4"],
  ["vmodule", "moduleSpec", ""],
];

describe("klog's flags", () => {
  it("are upstream's, with its types and defaults, and no others", () => {
    const ours = Object.entries<FlagTable[string]>(KLOG_FLAGS).map(([name, spec]) => {
      return [name, spec.type.name, spec.type.format(spec.default)];
    });
    assert.deepEqual(
      ours.toSorted(([a = ""], [b = ""]) => (a < b ? -1 : 1)),
      UPSTREAM,
    );
  });

  const accepted: readonly (readonly [argument: string, value: string])[] = [
    ["--v=10", "10"],
    ["--v=-1", "-1"],
    ["--stderrthreshold=FATAL", "3"],
    ["--stderrthreshold=warning", "1"],
    ["--stderrthreshold=7", "7"],
    ["--log-backtrace-at=gopherflakes.go:234", "gopherflakes.go:234"],
    ["--log-backtrace-at=", ":0"],
    ["--vmodule=recordio=2,file=1,gfs*=3", "recordio=2,file=1,gfs*=3"],
    ["--vmodule=,a=1,,b=0,", "a=1"],
    ["--vmodule=", ""],
    ["--log-file-max-size=0", "0"],
    ["--log-file-max-size=0x10", "16"],
    ["--logtostderr=F", "false"],
    ["--alsologtostderr", "true"],
  ];
  for (const [argument, value] of accepted) {
    it(`take ${argument}`, async () => {
      const name = argument.slice(2).split("=")[0] as keyof typeof KLOG_FLAGS;
      assert.equal(String((await parse([argument])).values[name]), value);
    });
  }

  const location = "syntax error: expect file.go:234";
  const modules = "syntax error: expect comma-separated list of filename=N";
  const refused: readonly (readonly [argument: string, cause: string])[] = [
    ["--v=0x4", 'strconv.ParseInt: parsing "0x4": invalid syntax'],
    ["--v=2147483648", 'strconv.ParseInt: parsing "2147483648": value out of range'],
    ["--stderrthreshold=LOUD", 'strconv.ParseInt: parsing "LOUD": invalid syntax'],
    ["--logtostderr=maybe", "parse error"],
    ["--log-file-max-size=-1", "parse error"],
    ["--log-file-max-size=18446744073709551616", "value out of range"],
    ["--log-backtrace-at=file.go", location],
    ["--log-backtrace-at=file:1", location],
    ["--log-backtrace-at=file.go:x", location],
    ["--log-backtrace-at=a.go:1:2", location],
    ["--log-backtrace-at=file.go:0", "negative or zero value for level"],
    ["--vmodule=a", modules],
    ["--vmodule==1", modules],
    ["--vmodule=a=1=2", modules],
    ["--vmodule=a=b", modules],
    ["--vmodule=a=-1", "negative value for vmodule level"],
  ];
  for (const [argument, cause] of refused) {
    it(`refuse ${argument}`, async () => {
      const [, name = "", text = ""] = /^--([^=]*)=(.*)$/.exec(argument) ?? [];
      const label = name === "v" ? "-v, --v" : `--${name}`;
      await assert.rejects(
        parse([argument]),
        new UsageError([`invalid argument "${text}" for "${label}" flag: ${cause}`]),
      );
    });
  }
});

describe("logging options", () => {
  it("are upstream's defaults when no flag is given", async () => {
    assert.deepEqual(resolveLoggingOptions(await parse([])), {
      verbosity: 4,
      logToStderr: true,
      logFile: "",
      logFileMaxSizeMegabytes: 1800,
      logDir: "",
      alsoLogToStderr: false,
      ignored: [],
    });
  });

  it("follow the flags of a stock manifest", async () => {
    const argv = [
      "--logtostderr=true",
      "--log-file=/var/log/k.log",
      "--log-file-max-size=0",
      "-v2",
    ];
    const options = resolveLoggingOptions(await parse(argv));
    assert.deepEqual(options, {
      verbosity: 2,
      logToStderr: true,
      logFile: "/var/log/k.log",
      logFileMaxSizeMegabytes: 0,
      logDir: "",
      alsoLogToStderr: false,
      ignored: [],
    });
    assert.ok(Object.isFrozen(options) && Object.isFrozen(options.ignored));
  });

  it("name the flags that were given and change nothing", async () => {
    const argv = [
      "--vmodule=a=1",
      "--skip-headers",
      "--stderrthreshold=INFO",
      "--one-output=false",
    ];
    assert.deepEqual(resolveLoggingOptions(await parse(argv)).ignored, [
      "stderrthreshold",
      "skip-headers",
      "vmodule",
    ]);
  });

  it("name logtostderr when it is false and nothing says which file to write", async () => {
    assert.deepEqual(resolveLoggingOptions(await parse(["--logtostderr=false"])).ignored, [
      "logtostderr",
    ]);
    for (const where of ["--log-file=/x", "--log-dir=/x"]) {
      const flags = await parse(["--logtostderr=false", where]);
      assert.deepEqual(resolveLoggingOptions(flags).ignored, []);
    }
  });
});
