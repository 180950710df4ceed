import type { FileExists } from "../file-exists.ts";
import { goQuote } from "./go-quote.ts";

/** What Go's `stat` says of a path at which there is nothing. */
export function missingFileText(path: string): string {
  return `stat ${path}: no such file or directory`;
}

/** Paths of one end's TLS material; empty for none. */
export interface TlsPaths {
  readonly keyPath: string;
  readonly certPath: string;
  readonly caCertPath: string;
}

/**
 * What is wrong with the TLS paths of one end, in upstream's order and words: files that are not
 * there, and a key without its certificate or the reverse.
 *
 * @param owner - Whose they are, as upstream's messages name it: `server`, `cluster`, `agent`.
 */
export function tlsPathProblems(
  owner: string,
  { keyPath, certPath, caCertPath }: TlsPaths,
  fileExists: FileExists,
): string[] {
  const problems: string[] = [];
  const checkExists = (what: string, path: string): void => {
    if (fileExists(path)) return;
    problems.push(`error checking ${owner} ${what} ${path}, got ${missingFileText(path)}`);
  };
  const checkPair = (given: string, other: string, path: string, otherPath: string): void => {
    if (otherPath !== "") return;
    problems.push(
      `cannot have ${owner} ${other} empty when ${owner} ${given} is set to ${goQuote(path)}`,
    );
  };

  if (keyPath !== "") {
    checkExists("key", keyPath);
    checkPair("key", "cert", keyPath, certPath);
  }
  if (certPath !== "") {
    checkExists("cert", certPath);
    checkPair("cert", "key", certPath, keyPath);
  }
  if (caCertPath !== "") checkExists("CA cert", caCertPath);
  return problems;
}
