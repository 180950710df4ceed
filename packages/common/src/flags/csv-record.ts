import { InvalidValueError } from "./invalid-value-error.ts";

const BARE_QUOTE = 'bare " in non-quoted field';
const LOOSE_QUOTE = 'extraneous or missing " in quoted-field';

/**
 * The fields of the first comma-separated record of `text`, which is how Go's flag library reads a
 * list.
 *
 * No text is no fields at all. A field in double quotes may hold commas and line ends, and a doubled
 * quote for a quote; elsewhere a quote is an error, and a line end ends the record (a manifest's
 * block scalar leaves one behind).
 *
 * @throws {InvalidValueError} with the message of Go's `encoding/csv`.
 */
export function parseCsvRecord(text: string): string[] {
  if (text === "") return [];
  const record = text.replace(/^(?:\r?\n)+/, "").replace(/\r$/, "");
  if (record === "") throw new InvalidValueError("EOF");

  const fields: string[] = [];
  let at = 0;
  for (;;) {
    const field = record[at] === '"' ? readQuoted(record, at) : readPlain(record, at);
    fields.push(field.value);
    if (record[field.end] !== ",") return fields;
    at = field.end + 1;
  }
}

/** A field's value and where it ends: at a comma, a line end, or the end of the text. */
interface CsvField {
  readonly value: string;
  readonly end: number;
}

function readPlain(record: string, start: number): CsvField {
  const length = record.slice(start).search(/,|\r?\n/);
  const end = length < 0 ? record.length : start + length;
  const value = record.slice(start, end);
  const quote = value.indexOf('"');
  if (quote >= 0) throw csvError(record, start + quote, BARE_QUOTE);
  return { value, end };
}

function readQuoted(record: string, start: number): CsvField {
  let value = "";
  let at = start + 1;
  for (;;) {
    const quote = record.indexOf('"', at);
    if (quote < 0) throw csvError(record, record.length, LOOSE_QUOTE);
    value += record.slice(at, quote);
    at = quote + 1;
    if (/^(?:$|,|\r?\n)/.test(record.slice(at))) return { value, end: at };
    if (record[at] !== '"') throw csvError(record, quote, LOOSE_QUOTE);
    value += '"';
    at += 1;
  }
}

/** Go counts columns in bytes, from one. Nobody gives a flag a quoted line end and then errs. */
function csvError(record: string, at: number, problem: string): InvalidValueError {
  const column = Buffer.byteLength(record.slice(0, at)) + 1;
  return new InvalidValueError(`parse error on line 1, column ${column}: ${problem}`);
}

/** The record that {@link parseCsvRecord} reads back as `fields`. */
export function formatCsvRecord(fields: readonly string[]): string {
  return fields
    .map((field) => (/[",\r\n]|^\s/.test(field) ? `"${field.replaceAll('"', '""')}"` : field))
    .join(",");
}
