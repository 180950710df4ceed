import { join } from "node:path";
import { alternativeNameFromText } from "./alternative-name.ts";
import { certificateRole } from "./certificate-roles.ts";
import type { CertificateRoleName, TrustDomain } from "./certificate-roles.ts";
import { createAuthority, issueCertificate } from "./issue-certificate.ts";
import type { CertificateUsage, IssuedCertificate, Validity } from "./issue-certificate.ts";
import type { RsaKeyPair } from "./rsa-key-pair.ts";
import { writeFiles } from "./write-files.ts";
import type { FileToWrite, WriteFilesOptions } from "./write-files.ts";

/** Where a certificate and its key are kept. */
export interface CertificatePaths {
  readonly certPath: string;
  readonly keyPath: string;
}

/** A certificate on disk. */
export interface WrittenCertificate extends CertificatePaths {
  readonly commonName: string;
  readonly usage: "CA" | CertificateUsage;
  /** Its host names and IP addresses. */
  readonly names: readonly string[];
  readonly notAfter: Date;
}

/** A certificate that is to be written. */
export interface DraftCertificate {
  readonly written: WrittenCertificate;
  readonly issued: IssuedCertificate;
}

/** `<outDir>/<domain>/<fileName>.crt` and `.key`. */
export function certificatePaths(
  outDir: string,
  domain: TrustDomain,
  fileName: string,
): CertificatePaths {
  const stem = join(outDir, domain, fileName);
  return { certPath: `${stem}.crt`, keyPath: `${stem}.key` };
}

export function draftAuthority(
  domain: TrustDomain,
  paths: CertificatePaths,
  validity: Validity,
  keyPair: RsaKeyPair,
): DraftCertificate {
  const commonName = `Reachback ${domain} CA`;
  const issued = createAuthority(commonName, validity, keyPair);
  const { notAfter } = validity;
  return { written: { ...paths, commonName, usage: "CA", names: [], notAfter }, issued };
}

/** What sets one leaf apart from another of its role. */
export interface LeafDetails {
  /** E.g. of the node; `undefined` for the role's own common name. */
  readonly name?: string | undefined;
  /** Host names and IP addresses beside the role's own. */
  readonly names: readonly string[];
  readonly validity: Validity;
}

/** @throws {Error} if one of the names is neither a host name nor an IP address. */
export function draftLeaf(
  roleName: CertificateRoleName,
  paths: CertificatePaths,
  authority: IssuedCertificate,
  details: LeafDetails,
  keyPair: RsaKeyPair,
): DraftCertificate {
  const role = certificateRole(roleName);
  const { name, validity } = details;
  const ownNames = name === undefined ? [] : [name];
  const names = [...new Set([...ownNames, ...role.defaultNames, ...details.names])];
  const commonName = role.commonName(name);
  const { organization, usage } = role;
  const request = { commonName, organization, names, usages: [usage], validity };
  const issued = issueCertificate(authority, request, keyPair);
  const { notAfter } = validity;
  return { written: { ...paths, commonName, usage, names, notAfter }, issued };
}

/** Before keys are made for them: @throws {Error} naming the first that cannot be used. */
export function checkNames(names: readonly string[]): void {
  for (const name of names) alternativeNameFromText(name);
}

/** Write keys for their owner only, certificates for everyone. */
export function writeDrafts(drafts: readonly DraftCertificate[], options: WriteFilesOptions): void {
  const files = drafts.flatMap(({ written, issued }): FileToWrite[] => [
    { path: written.keyPath, text: issued.keyPem, mode: 0o600 },
    { path: written.certPath, text: issued.certPem, mode: 0o644 },
  ]);
  writeFiles(files, options);
}
