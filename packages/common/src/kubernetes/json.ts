// What comes from files and from an apiserver is of no type until it has been looked at. Absent and
// wrong are the same to us: a field is there as it should be, or it is empty.

/** The fields of an object; none if it is no object. */
export function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  const isRecord = typeof value === "object" && value !== null && !Array.isArray(value);
  return isRecord ? (value as Readonly<Record<string, unknown>>) : {};
}

/** The items of an array; none if it is no array. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** A text; numbers are taken for what they look like, and all else is empty. */
export function textOf(value: unknown): string {
  if (typeof value === "number") return String(value);
  return typeof value === "string" ? value : "";
}
