import { readFileSync } from "node:fs";
import { systemErrorText } from "../system-error-text.ts";

/**
 * The text of the file at `path`.
 *
 * @throws {Error} whose message is Go's for the same failure, e.g.
 * `open /x: no such file or directory`.
 */
export function readMaterial(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const systemError = error as NodeJS.ErrnoException;
    // A directory can be opened but not read.
    const call = systemError.code === "EISDIR" ? "read" : "open";
    throw new Error(`${call} ${path}: ${systemErrorText(systemError)}`, { cause: error });
  }
}
