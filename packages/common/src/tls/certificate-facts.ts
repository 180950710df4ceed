import type { X509Certificate } from "node:crypto";

/** What logs and tables say about a certificate. */
export interface CertificateFacts {
  /** E.g. `O=system:nodes, CN=system:node:a`. */
  readonly subject: string;
  readonly issuer: string;
  /** Hexadecimal, as `openssl x509 -serial` prints it. */
  readonly serial: string;
  /** ISO 8601, in UTC, to the second. */
  readonly notBefore: string;
  readonly notAfter: string;
  readonly notBeforeAtMs: number;
  readonly notAfterAtMs: number;
}

/** @throws {Error} if a date in the certificate is not a date. */
export function certificateFacts(certificate: X509Certificate): CertificateFacts {
  const notBeforeAtMs = Date.parse(certificate.validFrom);
  const notAfterAtMs = Date.parse(certificate.validTo);
  return {
    subject: onOneLine(certificate.subject),
    issuer: onOneLine(certificate.issuer),
    serial: certificate.serialNumber,
    notBefore: goTimeText(notBeforeAtMs),
    notAfter: goTimeText(notAfterAtMs),
    notBeforeAtMs,
    notAfterAtMs,
  };
}

/**
 * Why the certificate cannot be used at `nowMs`, in the words of Go's verifier, or `undefined`.
 */
export function validityProblem(facts: CertificateFacts, nowMs: number): string | undefined {
  const isEarly = nowMs < facts.notBeforeAtMs;
  if (!isEarly && nowMs <= facts.notAfterAtMs) return undefined;
  const limit = isEarly ? `before ${facts.notBefore}` : `after ${facts.notAfter}`;
  return `x509: certificate has expired or is not yet valid: current time ${goTimeText(nowMs)} is ${limit}`;
}

/** Node separates the parts of a name by line breaks, and escapes those within a part. */
function onOneLine(name: string | undefined): string {
  return (name ?? "").replaceAll("\n", ", ");
}

/** RFC 3339 without a fraction. */
function goTimeText(timeMs: number): string {
  return new Date(timeMs).toISOString().replace(/\.\d+Z$/, "Z");
}
