import type { LogEvent, LogFields, Logger } from "@reachback/common";
import type { FromWorker, LoggedError } from "./messages.ts";

type LogMessage = Extract<FromWorker, { type: "log" }>;

/** A worker's logger: the primary writes its lines, so that one process has the log file. */
export class ChannelLogger implements Logger {
  readonly debugEnabled: boolean;
  readonly #send: (message: LogMessage) => void;
  readonly #fields: LogFields;

  constructor(debugEnabled: boolean, send: (message: LogMessage) => void, fields: LogFields = {}) {
    this.debugEnabled = debugEnabled;
    this.#send = send;
    this.#fields = fields;
  }

  debug(event: LogEvent, fields?: LogFields): void {
    if (this.debugEnabled) this.#write("debug", event, fields);
  }

  info(event: LogEvent, fields?: LogFields): void {
    this.#write("info", event, fields);
  }

  warn(event: LogEvent, fields?: LogFields): void {
    this.#write("warn", event, fields);
  }

  error(event: LogEvent, error: unknown, fields?: LogFields): void {
    this.#write("error", event, fields, loggedError(error));
  }

  child(fields: LogFields): Logger {
    return new ChannelLogger(this.debugEnabled, this.#send, { ...this.#fields, ...fields });
  }

  #write(
    level: LogMessage["level"],
    event: LogEvent,
    fields: LogFields = {},
    error?: LoggedError,
  ): void {
    this.#send({ type: "log", level, event, fields: { ...this.#fields, ...fields }, error });
  }
}

/** Write a worker's line. */
export function writeLine(
  { level, event, fields, error }: LogMessage,
  worker: number,
  logger: Logger,
): void {
  const line = { worker, ...fields };
  if (level !== "error") logger[level](event, line);
  else logger.error(event, error === undefined ? undefined : errorFrom(error), line);
}

function loggedError(error: unknown): LoggedError {
  if (!(error instanceof Error)) {
    return { message: String(error), stack: undefined, code: undefined };
  }
  const { code } = error as NodeJS.ErrnoException;
  return { message: error.message, stack: error.stack, code };
}

function errorFrom({ message, stack, code }: LoggedError): Error {
  const error = new Error(message);
  if (stack !== undefined) error.stack = stack;
  return code === undefined ? error : Object.assign(error, { code });
}
