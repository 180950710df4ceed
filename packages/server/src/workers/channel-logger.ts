import type { LogEvent, LogFields, Logger } from "@reachback/common";
import { WORKER_MAX_WAITING_LINES } from "../limits.ts";
import type { FromWorker, LoggedError } from "./messages.ts";

type LogMessage = Extract<FromWorker, { type: "log" }>;

/** Sends a message to the primary; `sent` is called once it has left. */
export type SendToPrimary = (message: LogMessage, sent: () => void) => void;

/** A worker's lines on their way to the primary. Those that it does not come to are dropped. */
export class LineChannel {
  readonly #send: SendToPrimary;
  #waiting = 0;
  #dropped = 0;

  constructor(send: SendToPrimary) {
    this.#send = send;
  }

  write(message: LogMessage): void {
    if (this.#waiting >= WORKER_MAX_WAITING_LINES) {
      this.#dropped++;
      return;
    }
    this.#waiting++;
    this.#send(message, () => {
      this.#waiting--;
      this.#tellDropped();
    });
  }

  #tellDropped(): void {
    if (this.#dropped === 0) return;
    const lines = this.#dropped;
    this.#dropped = 0;
    this.write({
      type: "log",
      level: "warn",
      event: "log.dropped",
      fields: { path: "the primary", lines },
    });
  }
}

/** A worker's logger: the primary writes its lines, so that one process has the log file. */
export class ChannelLogger implements Logger {
  readonly debugEnabled: boolean;
  readonly #channel: LineChannel;
  readonly #fields: LogFields;

  constructor(debugEnabled: boolean, channel: LineChannel, fields: LogFields = {}) {
    this.debugEnabled = debugEnabled;
    this.#channel = channel;
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
    return new ChannelLogger(this.debugEnabled, this.#channel, { ...this.#fields, ...fields });
  }

  #write(
    level: LogMessage["level"],
    event: LogEvent,
    fields: LogFields = {},
    error?: LoggedError,
  ): void {
    this.#channel.write({
      type: "log",
      level,
      event,
      fields: { ...this.#fields, ...fields },
      error,
    });
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
