import { readFileSync } from "node:fs";

/**
 * The version in the package.json of the calling package.
 *
 * @param moduleUrl - `import.meta.url` of a module directly below the package's `src` or `dist`.
 */
export function packageVersion(moduleUrl: string): string {
  const text = readFileSync(new URL("../package.json", moduleUrl), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}
