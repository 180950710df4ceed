import type { LogEvent, LogFields, Logger } from "../log/logger.ts";

export interface RecordedLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly event: LogEvent;
  readonly fields: LogFields;
  readonly error?: unknown;
}

/** A logger that keeps its lines for a test to look at; children share the list. */
export class RecordingLogger implements Logger {
  readonly debugEnabled = true;
  readonly lines: RecordedLine[];
  readonly #fields: LogFields;

  constructor(lines: RecordedLine[] = [], fields: LogFields = {}) {
    this.lines = lines;
    this.#fields = fields;
  }

  debug(event: LogEvent, fields: LogFields = {}): void {
    this.lines.push({ level: "debug", event, fields: { ...this.#fields, ...fields } });
  }

  info(event: LogEvent, fields: LogFields = {}): void {
    this.lines.push({ level: "info", event, fields: { ...this.#fields, ...fields } });
  }

  warn(event: LogEvent, fields: LogFields = {}): void {
    this.lines.push({ level: "warn", event, fields: { ...this.#fields, ...fields } });
  }

  error(event: LogEvent, error: unknown, fields: LogFields = {}): void {
    this.lines.push({ level: "error", event, error, fields: { ...this.#fields, ...fields } });
  }

  child(fields: LogFields): Logger {
    return new RecordingLogger(this.lines, { ...this.#fields, ...fields });
  }
}
