/** Where the lines go and which of them are written, as the klog flags of both programs say it. */
export interface LoggingOptions {
  /** `--v`: see {@link logLevelFromVerbosity}. Upstream's programs start with 4. */
  readonly verbosity: number;

  /** `--logtostderr`: everything to standard error and no file, whatever the other options say. */
  readonly logToStderr: boolean;

  /** `--log-file`: append to this file. Only without {@link logToStderr}; `""` for none. */
  readonly logFile: string;

  /**
   * `--log-file-max-size` in megabytes (1024 x 1024 bytes): the file is cut to nothing before the
   * line that would fill it, as klog does. 0 for no limit.
   */
  readonly logFileMaxSizeMegabytes: number;

  /** `--alsologtostderr`: every line of the file also to standard error. Errors always are. */
  readonly alsoLogToStderr: boolean;

  /** `--log-dir`: append to `<program>.log` in this folder. Only without {@link logFile}. */
  readonly logDir: string;

  /** Flags, without dashes, that were given and change nothing here; named in one line. */
  readonly ignored: readonly string[];
}

export type LogLevel = "debug" | "info" | "warn" | "error";

/**
 * The least level that is written at klog verbosity `verbosity`: up to 1 only warnings, from 2 (4
 * is the programs' default) also what happens to tunnels and listeners, from 5 also connections.
 * Errors are written at every verbosity.
 */
export function logLevelFromVerbosity(verbosity: number): LogLevel {
  if (verbosity >= 5) return "debug";
  return verbosity >= 2 ? "info" : "warn";
}
