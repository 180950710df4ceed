import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The part of a package.json that says what can be started. */
interface Manifest {
  readonly bin?: Readonly<Record<string, string>>;
}

/**
 * The script that a package starts `program` with, as its package.json says. That file is looked for
 * from the package's entry point upwards, because an `exports` map usually hides it.
 *
 * @param entryPoint - `import.meta.resolve` of the package; it need not have been built.
 * @throws {Error} if there is no such program.
 */
export function programPath(entryPoint: string, program: string): string {
  let folder = new URL(".", entryPoint);
  for (;;) {
    const script = readManifest(new URL("package.json", folder))?.bin?.[program];
    if (script !== undefined) return fileURLToPath(new URL(script, folder));
    const parent = new URL("..", folder);
    if (parent.href === folder.href) {
      throw new Error(`the package at ${fileURLToPath(entryPoint)} has no program ${program}`);
    }
    folder = parent;
  }
}

function readManifest(url: URL): Manifest | undefined {
  return existsSync(url) ? (JSON.parse(readFileSync(url, "utf8")) as Manifest) : undefined;
}
