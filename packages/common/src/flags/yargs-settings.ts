/** Everything yargs would guess about an argument, switched off: names and texts stay as written. */
export const PLAIN_PARSER = {
  "boolean-negation": false,
  "camel-case-expansion": false,
  "dot-notation": false,
  "duplicate-arguments-array": true,
  "flatten-duplicate-arrays": true,
  "greedy-arrays": false,
  "parse-numbers": false,
  "parse-positional-numbers": false,
  "short-option-groups": false,
} as const;
