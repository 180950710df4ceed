/** A line of a program's log. A line that is no JSON object is a record without fields. */
export type LogRecord = Readonly<Record<string, unknown>>;

export function logRecordFrom(line: string): LogRecord {
  try {
    return Object(JSON.parse(line)) as LogRecord;
  } catch {
    return {};
  }
}

/** A field of a record, as text. */
export function textOf(record: LogRecord, field: string): string {
  const value = record[field];
  return typeof value === "string" ? value : "";
}
