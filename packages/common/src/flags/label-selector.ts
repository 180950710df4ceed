import { goQuote } from "./go-quote.ts";
import { InvalidValueError } from "./invalid-value-error.ts";
import { labelKeyFaults, labelValueFaults } from "./label-syntax.ts";

/** Operators that compare a label with values, in the order in which Kubernetes lists them. */
const BINARY_OPERATORS = ["in", "notin", "=", "==", "!=", "gt", "lt"] as const;

export type LabelOperator = (typeof BINARY_OPERATORS)[number] | "exists" | "!";

/** One condition on one label. */
export interface LabelRequirement {
  readonly key: string;
  readonly operator: LabelOperator;
  /** Sorted, without repeats: one for the comparisons, any number for `in`, none for existence. */
  readonly values: readonly string[];
}

/** Labels of an object, by key. */
export type Labels = Readonly<Record<string, string>>;

/** Conditions that an object's labels must all meet. With no condition, everything matches. */
export class LabelSelector {
  /** Sorted by key. */
  readonly requirements: readonly LabelRequirement[];

  constructor(requirements: readonly LabelRequirement[]) {
    this.requirements = requirements.toSorted((a, b) => compare(a.key, b.key));
  }

  matches(labels: Labels): boolean {
    return this.requirements.every((requirement) => meets(labels, requirement));
  }

  /** The selector as Kubernetes writes it, good for a `labelSelector` query. */
  toString(): string {
    return this.requirements.map(requirementText).join(",");
  }
}

function meets(labels: Labels, { key, operator, values }: LabelRequirement): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case "exists":
      return value !== undefined;
    case "!":
      return value === undefined;
    case "in":
    case "=":
    case "==":
      return value !== undefined && values.includes(value);
    case "notin":
    case "!=":
      return value === undefined || !values.includes(value);
    case "gt":
    case "lt": {
      const left = value === undefined ? undefined : decimalFrom(value);
      const right = decimalFrom(values[0] ?? "");
      if (left === undefined || right === undefined) return false;
      return operator === "gt" ? left > right : left < right;
    }
  }
}

function requirementText({ key, operator, values }: LabelRequirement): string {
  const list = values.join(",");
  switch (operator) {
    case "exists":
      return key;
    case "!":
      return `!${key}`;
    case "in":
    case "notin":
      return `${key} ${operator} (${list})`;
    case "gt":
      return `${key}>${list}`;
    case "lt":
      return `${key}<${list}`;
    case "=":
    case "==":
    case "!=":
      return key + operator + list;
  }
}

/**
 * Read a selector in Kubernetes' syntax: `a=b`, `a==b`, `a!=b`, `a in (x,y)`, `a notin (x)`, `a`,
 * `!a`, `a>1`, `a<1`, joined by commas. No text selects everything.
 *
 * @throws {InvalidValueError} with the message of Kubernetes' parser.
 */
export function parseLabelSelector(text: string): LabelSelector {
  return new LabelSelector(new SelectorParser(tokensOf(text)).parse());
}

type TokenKind = "word" | "end" | "(" | ")" | "," | "!" | "=" | "==" | "!=" | ">" | "<";

interface Token {
  readonly kind: TokenKind;
  readonly text: string;
}

const END: Token = { kind: "end", text: "" };

/** White space, a sign, or a word: anything up to the next sign or white space. */
const TOKEN = /[ \t\r\n]+|(==|!=|[=!(),<>])|([^=!(),<> \t\r\n]+)/g;

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  for (const [, sign, word] of text.matchAll(TOKEN)) {
    if (sign !== undefined) tokens.push({ kind: sign as TokenKind, text: sign });
    else if (word !== undefined) tokens.push({ kind: "word", text: word });
  }
  return tokens;
}

/** Recursive descent over the tokens; every message is the one Kubernetes gives at that place. */
class SelectorParser {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  parse(): LabelRequirement[] {
    const requirements: LabelRequirement[] = [];
    if (this.#peek().kind === "end") return requirements;
    if (!this.#startsRequirement()) {
      throw new InvalidValueError(
        `found '${this.#peek().text}', expected: !, identifier, or 'end of string'`,
      );
    }
    for (;;) {
      requirements.push(this.#requirement());
      const separator = this.#take();
      if (separator.kind === "end") return requirements;
      if (separator.kind !== ",") {
        throw new InvalidValueError(`found '${separator.text}', expected: ',' or 'end of string'`);
      }
      if (!this.#startsRequirement()) {
        throw new InvalidValueError(`found '${this.#peek().text}', expected: identifier after ','`);
      }
    }
  }

  #requirement(): LabelRequirement {
    const isNegated = this.#peek().kind === "!";
    if (isNegated) this.#take();
    const key = this.#take();
    if (key.kind !== "word") throw requirementError(found(key, "identifier"));
    const faults = labelKeyFaults(key.text);
    if (faults.length > 0) throw requirementError(fieldError("<nil>", key.text, faults));

    if (isNegated) return { key: key.text, operator: "!", values: [] };
    const { kind } = this.#peek();
    if (kind === "end" || kind === ",") return { key: key.text, operator: "exists", values: [] };

    const operator = this.#operator();
    const isSet = operator === "in" || operator === "notin";
    const values = isSet ? this.#valueSet() : [this.#singleValue()];
    return checked({ key: key.text, operator, values: [...new Set(values)].sort(compare) });
  }

  #operator(): (typeof BINARY_OPERATORS)[number] {
    const token = this.#take();
    if (token.kind === ">") return "gt";
    if (token.kind === "<") return "lt";
    const operator = BINARY_OPERATORS.find((known) => known === token.text);
    if (operator === undefined || operator === "gt" || operator === "lt") {
      throw requirementError(found(token, BINARY_OPERATORS.join(", ")));
    }
    return operator;
  }

  #singleValue(): string {
    const { kind } = this.#peek();
    if (kind === "end" || kind === ",") return "";
    const token = this.#take();
    if (token.kind !== "word") throw requirementError(found(token, "identifier"));
    return token.text;
  }

  /** Values in parentheses. A comma with nothing on one side of it stands for the empty value. */
  #valueSet(): string[] {
    const open = this.#take();
    // No comma after the found text here: that is how this one message is written.
    if (open.kind !== "(") throw requirementError(`found '${open.text}' expected: '('`);
    if (!["word", ",", ")"].includes(this.#peek().kind)) {
      throw requirementError(found(this.#peek(), "',', ')' or identifier"));
    }
    const values: string[] = [];
    for (;;) {
      const token = this.#take();
      if (token.kind === ")") return [...values, ""];
      if (token.kind === ",") {
        values.push("");
        continue;
      }
      if (token.kind !== "word") throw requirementError(found(token, "',', or identifier"));
      values.push(token.text);
      const next = this.#take();
      if (next.kind === ")") return values;
      if (next.kind !== ",") throw requirementError(found(next, "',' or ')'"));
    }
  }

  #startsRequirement(): boolean {
    const { kind } = this.#peek();
    return kind === "word" || kind === "!";
  }

  #peek(): Token {
    return this.#tokens[this.#at] ?? END;
  }

  #take(): Token {
    const token = this.#peek();
    this.#at += 1;
    return token;
  }
}

/** The requirement, if its values are legal label values, and numbers where they are compared. */
function checked(requirement: LabelRequirement): LabelRequirement {
  const { key, operator, values } = requirement;
  const errors: string[] = [];
  if (operator === "gt" || operator === "lt") {
    for (const [index, value] of values.entries()) {
      if (decimalFrom(value) !== undefined) continue;
      const rule = "for 'Gt', 'Lt' operators, the value must be an integer";
      errors.push(fieldError(`values[${index}]`, value, [rule]));
    }
  }
  for (const [index, value] of values.entries()) {
    const faults = labelValueFaults(value);
    if (faults.length > 0) errors.push(fieldError(`values[${index}][${key}]`, value, faults));
  }
  if (errors.length === 0) return requirement;
  throw requirementError(errors.length === 1 ? errors.join("") : `[${errors.join(", ")}]`);
}

function requirementError(cause: string): InvalidValueError {
  return new InvalidValueError(`unable to parse requirement: ${cause}`);
}

function found(token: Token, expected: string): string {
  return `found '${token.text}', expected: ${expected}`;
}

function fieldError(field: string, value: string, faults: readonly string[]): string {
  return `${field}: Invalid value: ${goQuote(value)}: ${faults.join("; ")}`;
}

/** A decimal that Kubernetes can compare: whole, and within 64 bits. */
function decimalFrom(text: string): bigint | undefined {
  if (!/^[+-]?[0-9]+$/.test(text)) return undefined;
  const value = BigInt(text);
  return BigInt.asIntN(64, value) === value ? value : undefined;
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
