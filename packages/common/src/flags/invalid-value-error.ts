/**
 * A text is not what it should be: not a duration, not a selector, not a query.
 *
 * The message is the cause alone, in the words Go's libraries use for it, because operators and
 * their scripts know those words. Whoever catches it says which flag or header the text came from.
 */
export class InvalidValueError extends Error {
  override readonly name = "InvalidValueError";
}
