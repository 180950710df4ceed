import { join } from "node:path";
import { multistream, pino } from "pino";
import type { Clock } from "../clock.ts";
import { FileTarget } from "./file-target.ts";
import { errorFields, lineFields } from "./line-fields.ts";
import { LogSink } from "./log-sink.ts";
import type { LogTarget } from "./log-target.ts";
import type { LogEvent, LogFields, Logger } from "./logger.ts";
import { logLevelFromVerbosity } from "./logging-options.ts";
import type { LoggingOptions } from "./logging-options.ts";
import { RepeatLimiter } from "./repeat-limiter.ts";
import { openStderr } from "./stderr-target.ts";

const CLOSE_TIMEOUT_MS = 2_000;
const MEGABYTE = 1024 * 1024;

/** Who writes the lines; both values are on every one of them. */
export interface ProgramIdentity {
  readonly program: string;
  readonly version: string;
}

export interface LoggerPorts {
  readonly clock: Clock;

  /** Where standard error goes; file descriptor 2 unless a test says otherwise. */
  readonly stderr?: LogTarget;
}

/** The logger of a whole program, which its executable reopens and closes. */
export interface ProgramLogger extends Logger {
  /** Open the log file anew after it has been renamed: what SIGHUP means. */
  reopen(): void;

  /** Hand over queued lines at once, for the moment before an exit that waits for nothing. */
  flushSync(): void;

  /**
   * Write the counts and lines that are held back, waiting at most two seconds each for a disk and
   * a reader that do not take them. Lines after that are dropped. Idempotent.
   */
  close(): Promise<void>;
}

/**
 * A {@link Logger} that writes one JSON object per line: `level`, `time`, `program`, `version`,
 * `event`, then the fields. An error adds its message as `error`, its `code` and `cause` if it has
 * them, and its `stack` only where debug lines are written too. `repeated` on a warning is the
 * number of like ones that the line stands for (see {@link RepeatLimiter}).
 *
 * Lines go to standard error, or to a log file with errors on standard error as well. Writing never
 * waits for either (see {@link LogSink}).
 *
 * @throws if the log file cannot be opened, naming the path and the reason.
 */
export function createLogger(
  options: LoggingOptions,
  identity: ProgramIdentity,
  ports: LoggerPorts,
): ProgramLogger {
  const { clock } = ports;
  const level = logLevelFromVerbosity(options.verbosity);
  const path = logFilePath(options, identity);
  // The sinks report to the logger that writes to them; nothing is written before it exists.
  const file =
    path === undefined
      ? undefined
      : new LogSink(
          new FileTarget(path, options.logFileMaxSizeMegabytes * MEGABYTE, {
            truncated: (bytes) => {
              logger.warn("log.truncated", { path, bytes });
            },
            reopenFailed: (error) => {
              logger.error("log.failed", error, { path });
            },
          }),
          clock,
          {
            dropped: (lines) => {
              logger.warn("log.dropped", { path, lines });
            },
            failed: (error) => {
              logger.error("log.failed", error, { path });
            },
          },
        );
  const stderr = new LogSink(ports.stderr ?? openStderr(), clock, {
    dropped: (lines) => {
      logger.warn("log.dropped", { path: "stderr", lines });
    },
    // There is nowhere left to say it.
    failed: () => undefined,
  });
  const stderrLevel = file === undefined || options.alsoLogToStderr ? level : "error";
  const sinks = [...(file === undefined ? [] : [file]), stderr];
  const writer = pino(
    {
      level,
      base: { program: identity.program, version: identity.version },
      timestamp: () => `,"time":"${new Date(clock.wallTimeMs()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    multistream(
      sinks.map((sink) => ({ level: sink === stderr ? stderrLevel : level, stream: sink })),
    ),
  );
  const logger = new PinoLogger(writer, clock, sinks);
  if (options.ignored.length > 0) {
    const flags = options.ignored.map((name) => `--${name}`).join(" ");
    logger.warn("flag.ignored", { flags });
  }
  return logger;
}

/** klog writes to the folder for temporary files if it is given neither; nobody looks there. */
function logFilePath(options: LoggingOptions, identity: ProgramIdentity): string | undefined {
  if (options.logToStderr) return undefined;
  if (options.logFile !== "") return options.logFile;
  return options.logDir === "" ? undefined : join(options.logDir, `${identity.program}.log`);
}

/** Where every line of a program is written, whichever of its loggers made it. */
interface Writer {
  debug(line: object): void;
  info(line: object): void;
  warn(line: object): void;
  error(line: object): void;
  isLevelEnabled(level: string): boolean;
}

class FieldLogger implements Logger {
  readonly debugEnabled: boolean;
  readonly #infoEnabled: boolean;
  readonly #writer: Writer;
  readonly #limiter: RepeatLimiter;
  readonly #fields: LogFields;

  constructor(writer: Writer, limiter: RepeatLimiter, fields: LogFields) {
    this.debugEnabled = writer.isLevelEnabled("debug");
    this.#infoEnabled = writer.isLevelEnabled("info");
    this.#writer = writer;
    this.#limiter = limiter;
    this.#fields = fields;
  }

  debug(event: LogEvent, fields: LogFields = {}): void {
    if (this.debugEnabled) this.#writer.debug({ event, ...lineFields(this.#fields, fields) });
  }

  info(event: LogEvent, fields: LogFields = {}): void {
    if (this.#infoEnabled) this.#writer.info({ event, ...lineFields(this.#fields, fields) });
  }

  warn(event: LogEvent, fields: LogFields = {}): void {
    const line = lineFields(this.#fields, fields);
    if (this.#limiter.admits(event, line)) this.#writer.warn({ event, ...line });
  }

  error(event: LogEvent, error: unknown, fields: LogFields = {}): void {
    const line = lineFields(this.#fields, { ...errorFields(error, this.debugEnabled), ...fields });
    this.#writer.error({ event, ...line });
  }

  child(fields: LogFields): Logger {
    return new FieldLogger(this.#writer, this.#limiter, { ...this.#fields, ...fields });
  }
}

class PinoLogger extends FieldLogger implements ProgramLogger {
  readonly #limiter: RepeatLimiter;
  readonly #sinks: readonly LogSink[];

  constructor(writer: Writer, clock: Clock, sinks: readonly LogSink[]) {
    const limiter = new RepeatLimiter(clock, (event, fields, repeated) => {
      writer.warn({ event, repeated, ...fields });
    });
    super(writer, limiter, {});
    this.#limiter = limiter;
    this.#sinks = sinks;
  }

  reopen(): void {
    for (const sink of this.#sinks) sink.reopen();
    this.info("log.reopened");
  }

  flushSync(): void {
    this.#limiter.flush();
    for (const sink of this.#sinks) sink.flushSync();
  }

  async close(): Promise<void> {
    this.#limiter.flush();
    // The file first: what it has to report is written to standard error.
    for (const sink of this.#sinks) await sink.close(CLOSE_TIMEOUT_MS);
  }
}
