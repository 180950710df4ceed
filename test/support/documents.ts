import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CHECKOUT } from "./executable.ts";

/** A file of this checkout. */
export function readDocument(name: string): string {
  return readFileSync(join(CHECKOUT, name), "utf8");
}

/** What is below a heading of Markdown (`## ...` or lower), up to the next of its level or above. */
export function sectionOf(markdown: string, heading: string): string {
  const [marks = ""] = /^#+/.exec(heading) ?? [];
  const start = `\n${markdown}`.indexOf(`\n${heading}\n`);
  if (start === -1) throw new Error(`there is no "${heading}"`);
  const text = markdown.slice(start + heading.length + 1);
  // A single "#" is root's prompt.
  const end = text.search(new RegExp(`^#{2,${marks.length}} `, "m"));
  return end === -1 ? text : text.slice(0, end);
}

/** The blocks of a language in Markdown: `console`, `yaml`, ... */
export function blocksIn(markdown: string, language: string): string[] {
  const blocks = markdown.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"));
  return Array.from(blocks, ([, text = ""]) => text);
}

/**
 * The commands in the `console` blocks of Markdown: lines after `$`, and after `#` where root is to
 * type them, with the lines that they go on in.
 */
export function commandsIn(markdown: string): string[] {
  const lines = /^[$#] (.*(?:\\\n.*|\n {4}.*)*)$/gm;
  return blocksIn(markdown, "console").flatMap((text) =>
    Array.from(text.matchAll(lines), ([, command = ""]) => command),
  );
}
