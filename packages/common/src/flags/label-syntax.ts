/** The syntax Kubernetes gives label keys and values, and its words for what breaks it. */

const NAME_PATTERN = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const VALUE_PATTERN = `(${NAME_PATTERN})?`;
const DNS_LABEL_PATTERN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_SUBDOMAIN_PATTERN = `${DNS_LABEL_PATTERN}(\\.${DNS_LABEL_PATTERN})*`;

const NAME = new RegExp(`^${NAME_PATTERN}$`);
const VALUE = new RegExp(`^${VALUE_PATTERN}$`);
const DNS_SUBDOMAIN = new RegExp(`^${DNS_SUBDOMAIN_PATTERN}$`);

const MAX_NAME_BYTES = 63;
const MAX_PREFIX_BYTES = 253;

const NAME_RULE =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const VALUE_RULE =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const PREFIX_RULE =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";

const NAME_FAULT = patternFault(NAME_RULE, NAME_PATTERN, ["MyName", "my.name", "123-abc"]);

/** Everything that is wrong with a label key, `[prefix/]name`; nothing for a valid one. */
export function labelKeyFaults(key: string): string[] {
  const parts = key.split("/");
  if (parts.length > 2) {
    const shape = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
    return [`a valid label key ${NAME_FAULT} ${shape}`];
  }
  const name = parts.at(-1) ?? "";
  const faults = parts.length === 2 ? prefixFaults(parts[0] ?? "") : [];
  if (name === "") faults.push("name part must be non-empty");
  if (byteLength(name) > MAX_NAME_BYTES) faults.push(`name part ${tooLong(MAX_NAME_BYTES)}`);
  if (!NAME.test(name)) faults.push(`name part ${NAME_FAULT}`);
  return faults;
}

function prefixFaults(prefix: string): string[] {
  if (prefix === "") return ["prefix part must be non-empty"];
  const faults: string[] = [];
  if (byteLength(prefix) > MAX_PREFIX_BYTES) {
    faults.push(`prefix part ${tooLong(MAX_PREFIX_BYTES)}`);
  }
  if (!DNS_SUBDOMAIN.test(prefix)) {
    const fault = patternFault(PREFIX_RULE, DNS_SUBDOMAIN_PATTERN, ["example.com"]);
    faults.push(`prefix part ${fault}`);
  }
  return faults;
}

/** Everything that is wrong with a label value; nothing for a valid one, and "" is valid. */
export function labelValueFaults(value: string): string[] {
  const faults: string[] = [];
  if (byteLength(value) > MAX_NAME_BYTES) faults.push(tooLong(MAX_NAME_BYTES));
  if (!VALUE.test(value)) {
    faults.push(patternFault(VALUE_RULE, VALUE_PATTERN, ["MyValue", "my_value", "12345"]));
  }
  return faults;
}

function patternFault(rule: string, pattern: string, examples: readonly string[]): string {
  const list = examples.map((example) => `'${example}', `).join(" or ");
  return `${rule} (e.g. ${list}regex used for validation is '${pattern}')`;
}

function tooLong(maxBytes: number): string {
  return `must be no more than ${maxBytes} bytes`;
}

function byteLength(text: string): number {
  return Buffer.byteLength(text);
}
