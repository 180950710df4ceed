import type { LoggingOptions } from "../log/logging-options.ts";
import type { FlagSpec, FlagTable, ParsedFlags } from "./flag-table.ts";
import type { FlagType } from "./flag-type.ts";
import { boolType, stringType } from "./flag-type.ts";
import { DECIMAL_INT32, UINT64, parseGoInteger, readGoBool, readGoInteger } from "./go-number.ts";
import { InvalidValueError } from "./invalid-value-error.ts";

/** klog registers its flags through Go's own flag package, whose messages are short. */
const klogBoolType: FlagType<boolean> = {
  ...boolType,
  parse(text) {
    const value = readGoBool(text);
    if (value === undefined) throw new InvalidValueError("parse error");
    return value;
  },
};

const klogUintType: FlagType<number> = {
  name: "uint",
  placeholder: "number",
  parse(text) {
    const reading = readGoInteger(text, UINT64);
    if (reading.fault === undefined) return reading.value;
    throw new InvalidValueError(reading.fault === "invalid syntax" ? "parse error" : reading.fault);
  },
  format: String,
};

const levelType: FlagType<number> = {
  name: "Level",
  placeholder: "level",
  parse: (text) => parseGoInteger(text, DECIMAL_INT32),
  format: String,
};

const SEVERITIES = ["INFO", "WARNING", "ERROR", "FATAL"];

/** A severity by its name in any case, or by its number. */
const severityType: FlagType<number> = {
  name: "severity",
  placeholder: "severity",
  parse(text) {
    const known = SEVERITIES.indexOf(text.toUpperCase());
    return known >= 0 ? known : parseGoInteger(text, DECIMAL_INT32);
  },
  format: String,
};

/** A line of Go source, `file.go:234`; no text is none. There is no such line here to match. */
const traceLocationType: FlagType<string> = {
  name: "traceLocation",
  placeholder: "file:line",
  parse(text) {
    if (text === "") return NO_TRACE_LOCATION;
    const [file = "", line = "", ...more] = text.split(":");
    const isShaped = more.length === 0 && file.includes(".") && /^[+-]?[0-9]+$/.test(line);
    if (!isShaped) throw new InvalidValueError("syntax error: expect file.go:234");
    if (Number(line) <= 0) throw new InvalidValueError("negative or zero value for level");
    return `${file}:${Number(line)}`;
  },
  format: (value) => value,
};

const NO_TRACE_LOCATION = ":0";

/** Levels for single Go source files, `pattern=N,...`; kept as klog prints them. */
const moduleSpecType: FlagType<string> = {
  name: "moduleSpec",
  placeholder: "pattern=N,...",
  parse(text) {
    const entries = text.split(",").filter((entry) => entry !== "");
    const levels = entries.map((entry) => {
      const [pattern = "", level = "", ...more] = entry.split("=");
      const reading = readGoInteger(level, DECIMAL_INT32);
      if (pattern === "" || more.length > 0 || reading.fault !== undefined) {
        throw new InvalidValueError("syntax error: expect comma-separated list of filename=N");
      }
      if (reading.value < 0) throw new InvalidValueError("negative value for vmodule level");
      return { pattern, level: reading.value };
    });
    return levels
      .filter(({ level }) => level > 0)
      .map(({ pattern, level }) => `${pattern}=${level}`)
      .join(",");
  },
  format: (value) => value,
};

const group = "Logging";

/** Flags for what this implementation does not have: they parse, and one warning names them. */
const IGNORED_FLAGS = {
  alsologtostderrthreshold: ignoredFlag(severityType, 0),
  stderrthreshold: ignoredFlag(severityType, 2),
  "legacy-stderr-threshold-behavior": ignoredFlag(klogBoolType, true),
  "one-output": ignoredFlag(klogBoolType, false),
  "skip-headers": ignoredFlag(klogBoolType, false),
  "skip-log-headers": ignoredFlag(klogBoolType, false),
  "add-dir-header": ignoredFlag(klogBoolType, false),
  "log-backtrace-at": ignoredFlag(traceLocationType, NO_TRACE_LOCATION),
  vmodule: ignoredFlag(moduleSpecType, ""),
} as const satisfies FlagTable;

function ignoredFlag<Value>(type: FlagType<Value>, value: Value): FlagSpec<Value> {
  return { type, default: value, group: "Logging flags of klog without effect here", help: "" };
}

/** The flags every Kubernetes program has for its logger, with the defaults of upstream's programs. */
export const KLOG_FLAGS = {
  v: {
    type: levelType,
    default: 4,
    shorthand: "v",
    group,
    help: "How much to log: 0 warnings and errors, 2 tunnels and listeners too, 5 every connection.",
  },
  logtostderr: {
    type: klogBoolType,
    default: true,
    group,
    help: "Log to standard error. Set it to false, together with --log-file, to log to a file.",
  },
  "log-file": {
    type: stringType,
    placeholder: "path",
    default: "",
    group,
    help: "File to append the log to, with --logtostderr=false.",
  },
  "log-dir": {
    type: stringType,
    placeholder: "path",
    default: "",
    group,
    help: "Folder for a log file named after the program, with --logtostderr=false and no --log-file.",
  },
  "log-file-max-size": {
    type: klogUintType,
    placeholder: "megabytes",
    default: 1800,
    group,
    help: "Size at which the log file is emptied, keeping no older one; 0 means never.",
  },
  alsologtostderr: {
    type: klogBoolType,
    default: false,
    group,
    help: "When logging to a file, write every line to standard error too, not just errors.",
  },
  ...IGNORED_FLAGS,
} as const satisfies FlagTable;

/** The logger's options, from the flags of a program whose table includes {@link KLOG_FLAGS}. */
export function resolveLoggingOptions({ values }: ParsedFlags<typeof KLOG_FLAGS>): LoggingOptions {
  const ignored = Object.entries<FlagSpec<unknown>>(IGNORED_FLAGS)
    .filter(([name, spec]) => values[name as keyof typeof IGNORED_FLAGS] !== spec.default)
    .map(([name]) => name);
  const hasFile = values["log-file"] !== "" || values["log-dir"] !== "";
  // klog would then make files in the folder for temporary ones.
  if (!values.logtostderr && !hasFile) ignored.unshift("logtostderr");
  return Object.freeze({
    verbosity: values.v,
    logToStderr: values.logtostderr,
    logFile: values["log-file"],
    logFileMaxSizeMegabytes: values["log-file-max-size"],
    alsoLogToStderr: values.alsologtostderr,
    logDir: values["log-dir"],
    ignored: Object.freeze(ignored),
  });
}
