import { bundleProblemText, certificateBundle, withRemark } from "./certificate-bundle.ts";
import type { BundledCertificate } from "./certificate-bundle.ts";
import { validityProblem } from "./certificate-facts.ts";
import type { CertificateFacts } from "./certificate-facts.ts";
import type { Clock } from "../clock.ts";
import { pemBlocksFromText } from "./pem-block.ts";
import type { PemBlock } from "./pem-block.ts";
import { readMaterial } from "./read-material.ts";
import { TlsMaterialError } from "./tls-material-error.ts";

/** Certificates that a peer's certificate may be signed by. */
export interface CaPool {
  readonly path: string;
  /** One certificate each, never none. */
  readonly pems: readonly string[];
  readonly certificates: readonly CertificateFacts[];
  /** A sentence for each certificate that is not valid now, for the log. */
  readonly warnings: readonly string[];
}

const NO_CERTIFICATE = "data does not contain any valid RSA or ECDSA certificates";

/**
 * Read a CA file: any number of certificates, with text and other blocks around them. A
 * `CERTIFICATE` block with PEM headers is skipped, as upstream does.
 *
 * Stricter than upstream, which takes what it can read of a damaged file and so leaves the operator
 * with peers that cannot be verified: one certificate that is cut off or not base64 is an error.
 *
 * @throws {TlsMaterialError} if the file cannot be read, holds no certificate, holds a damaged one,
 * or none that is valid at the clock's time.
 */
export function loadCaPool(path: string, clock: Pick<Clock, "wallTimeMs">): CaPool {
  let text: string;
  try {
    text = readMaterial(path);
  } catch (error) {
    throw refusal((error as Error).message, error);
  }
  try {
    return caPoolFrom(path, text, clock.wallTimeMs());
  } catch (error) {
    throw refusal(`error creating pool from ${path}: ${(error as Error).message}`, error);
  }
}

function refusal(reason: string, cause: unknown): TlsMaterialError {
  return new TlsMaterialError(`failed to load CA cert: ${reason}`, { cause });
}

function caPoolFrom(path: string, text: string, nowMs: number): CaPool {
  const blocks = pemBlocksFromText(text);
  const candidates = blocks.filter((block) => !block.hasHeaders);
  const { certificates, problem } = certificateBundle(candidates);
  if (problem !== undefined)
    throw new Error(bundleProblemText(problem, candidates, NO_CERTIFICATE));
  if (certificates.length === 0) {
    throw new Error(withRemark(NO_CERTIFICATE, emptinessRemark(text, blocks)));
  }
  return {
    path,
    pems: certificates.map(({ pem }) => pem),
    certificates: certificates.map(({ facts }) => facts),
    warnings: invalidityWarnings(path, certificates, nowMs),
  };
}

function emptinessRemark(text: string, blocks: readonly PemBlock[]): string | undefined {
  if (text.trim() === "") return "the file is empty";
  const [first] = blocks;
  if (first === undefined) return undefined;
  const headers = first.type === "CERTIFICATE" ? " with PEM headers, which is skipped" : "";
  return `line ${first.line}: a ${first.type} block${headers}`;
}

/** @throws {Error} if none of them is valid. */
function invalidityWarnings(
  path: string,
  certificates: readonly BundledCertificate[],
  nowMs: number,
): string[] {
  const warnings: string[] = [];
  let firstProblem: string | undefined;
  for (const { facts, line } of certificates) {
    const problem = validityProblem(facts, nowMs);
    if (problem === undefined) continue;
    firstProblem ??= problem;
    warnings.push(`CA certificate "${facts.subject}" in ${path}, line ${line}: ${problem}`);
  }
  if (firstProblem !== undefined && warnings.length === certificates.length) {
    const others = certificates.length - 1;
    const remark = others === 0 ? undefined : `nor is any of the ${others} others valid`;
    throw new Error(withRemark(firstProblem, remark));
  }
  return warnings;
}
