import { X509Certificate } from "node:crypto";
import { certificateFacts } from "./certificate-facts.ts";
import type { CertificateFacts } from "./certificate-facts.ts";
import { pemFromBytes } from "./pem-block.ts";
import type { PemBlock, WholePemBlock } from "./pem-block.ts";

/** A certificate of a PEM file. */
export interface BundledCertificate {
  readonly certificate: X509Certificate;
  readonly facts: CertificateFacts;
  /** Written anew from the certificate's bytes, so that every reader sees what was checked. */
  readonly pem: string;
  /** Line of the block that holds it, counted from 1. */
  readonly line: number;
}

/** Why a file cannot be used: its first `CERTIFICATE` block that holds something else. */
export interface BundleProblem {
  /**
   * - `unreadable`: no bytes can be had from the block; upstream then acts as if it were not there.
   * - `malformed`: its bytes are not a certificate; upstream refuses the file.
   */
  readonly kind: "unreadable" | "malformed";
  /**
   * E.g. `line 7: the CERTIFICATE block has no END line`; `undefined` if the block is all there is
   * in the file, and nothing more is known than its kind.
   */
  readonly remark: string | undefined;
}

export interface CertificateBundle {
  /** Those before the problem, if there is one. */
  readonly certificates: readonly BundledCertificate[];
  readonly problem: BundleProblem | undefined;
}

const CERTIFICATE = "CERTIFICATE";

/**
 * The certificates in the `CERTIFICATE` blocks among `blocks`, in order; other blocks are skipped.
 *
 * A block may hold several certificates one after the other, as in Go.
 */
export function certificateBundle(blocks: readonly PemBlock[]): CertificateBundle {
  const certificates: BundledCertificate[] = [];
  for (const block of blocks) {
    if (block.type !== CERTIFICATE) continue;
    if (!block.whole) {
      const remark = `line ${block.line}: the CERTIFICATE block ${block.problem}`;
      return { certificates, problem: { kind: "unreadable", remark } };
    }
    const found = certificatesOf(block);
    if (!Array.isArray(found)) {
      const isAlone = blocks.length === 1 && block.line === 1 && !found.isCutOff;
      const remark = isAlone ? undefined : `line ${block.line}: ${found.reason}`;
      return { certificates, problem: { kind: "malformed", remark } };
    }
    certificates.push(...found);
  }
  return { certificates, problem: undefined };
}

/**
 * The problem as upstream words it, with the remark behind it.
 *
 * @param nothingFound - What upstream says of a file in which it finds no certificate.
 */
export function bundleProblemText(
  problem: BundleProblem,
  blocks: readonly PemBlock[],
  nothingFound: string,
): string {
  if (problem.kind === "malformed")
    return withRemark("x509: malformed certificate", problem.remark);
  // Upstream skips the block, so its words are true only if no other certificate is there.
  const hasAnother = blocks.some((block) => block.whole && block.type === CERTIFICATE);
  return hasAnother ? (problem.remark ?? nothingFound) : withRemark(nothingFound, problem.remark);
}

/** `text` with a remark in parentheses, if there is one. */
export function withRemark(text: string, remark: string | undefined): string {
  return remark === undefined ? text : `${text} (${remark})`;
}

interface MalformedBytes {
  readonly reason: string;
  readonly isCutOff: boolean;
}

function certificatesOf(block: WholePemBlock): BundledCertificate[] | MalformedBytes {
  const found: BundledCertificate[] = [];
  let rest = block.bytes;
  do {
    const length = derLength(rest);
    if (length !== undefined && length > rest.length) {
      const reason = `the certificate is cut off after ${rest.length} of ${length} bytes`;
      return { reason, isCutOff: true };
    }
    const bytes = rest.subarray(0, length);
    const certificate = length === undefined ? undefined : parsed(bytes);
    if (certificate === undefined) {
      return { reason: "the CERTIFICATE block is not a certificate", isCutOff: false };
    }
    const pem = pemFromBytes(CERTIFICATE, bytes);
    found.push({ ...certificate, pem, line: block.line });
    rest = rest.subarray(bytes.length);
  } while (rest.length > 0);
  return found;
}

function parsed(bytes: Buffer): Pick<BundledCertificate, "certificate" | "facts"> | undefined {
  try {
    const certificate = new X509Certificate(bytes);
    // The constructor also takes PEM text, and ignores what follows the certificate.
    if (!certificate.raw.equals(bytes)) return undefined;
    return { certificate, facts: certificateFacts(certificate) };
  } catch {
    return undefined;
  }
}

const SEQUENCE = 0x30;

/**
 * How many bytes the DER sequence at the start of `bytes` says it takes, header included;
 * `undefined` if there is no sequence there.
 */
function derLength(bytes: Buffer): number | undefined {
  const [tag, first] = bytes;
  if (tag !== SEQUENCE || first === undefined) return undefined;
  if (first < 0x80) return 2 + first;
  const lengthBytes = first & 0x7f;
  // Four bytes of length would be a certificate of 16 MiB.
  if (lengthBytes === 0 || lengthBytes > 3 || bytes.length < 2 + lengthBytes) return undefined;
  return 2 + lengthBytes + bytes.readUIntBE(2, lengthBytes);
}
