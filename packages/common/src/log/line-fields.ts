import type { LogFields } from "./logger.ts";

type LineFields = Record<string, string | number | boolean>;

/** Keys of the line itself; a field of that name is written with `_` behind it. */
const RESERVED = new Set(["level", "time", "program", "version", "event", "repeated"]);

/** A peer's text may be megabytes long; a line has no use for more than this. */
const MAX_TEXT_LENGTH = 2_048;

/**
 * `fields` of a logger and of one call as they are written: the call's own win, none is undefined,
 * none is longer than a line can bear.
 */
export function lineFields(bound: LogFields, own: LogFields): LineFields {
  const line: LineFields = {};
  addTo(line, bound);
  addTo(line, own);
  return line;
}

/**
 * What a line says of an error: its message and that of its cause, its code, and its stack if
 * `withStack`.
 */
export function errorFields(error: unknown, withStack: boolean): LogFields {
  if (!(error instanceof Error)) return { error: String(error) };
  const { code } = error as NodeJS.ErrnoException;
  return {
    error: messageOf(error),
    code: typeof code === "string" || typeof code === "number" ? code : undefined,
    cause: error.cause instanceof Error ? messageOf(error.cause) : undefined,
    stack: withStack ? error.stack : undefined,
  };
}

function addTo(line: LineFields, fields: LogFields): void {
  for (const name in fields) {
    const value = fields[name];
    if (value === undefined) continue;
    line[RESERVED.has(name) ? `${name}_` : name] = typeof value === "string" ? cut(value) : value;
  }
}

function cut(text: string): string {
  if (text.length <= MAX_TEXT_LENGTH) return text;
  return `${text.slice(0, MAX_TEXT_LENGTH)}... (${text.length} characters)`;
}

function messageOf(error: Error): string {
  // What a connection attempt to several addresses throws has an empty message of its own.
  if (error instanceof AggregateError && error.message === "") {
    return error.errors
      .map((inner) => (inner instanceof Error ? inner.message : String(inner)))
      .join("; ");
  }
  return error.message;
}
