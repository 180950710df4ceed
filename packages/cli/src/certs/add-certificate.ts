import { X509Certificate } from "node:crypto";
import { existsSync } from "node:fs";
import { loadKeyPair, systemClock } from "@reachback/common";
import type { Clock } from "@reachback/common";
import { certificateRole } from "./certificate-roles.ts";
import type { CertificateRoleName, TrustDomain } from "./certificate-roles.ts";
import { certificatePaths, checkNames, draftLeaf, writeDrafts } from "./draft-certificate.ts";
import type { WrittenCertificate } from "./draft-certificate.ts";
import type { IssuedCertificate } from "./issue-certificate.ts";
import { generateRsaKeyPair } from "./rsa-key-pair.ts";
import { DEFAULT_LEAF_DAYS, validityFrom } from "./validity.ts";
import { refuseExisting } from "./write-files.ts";

export interface AddCertificateOptions {
  /** The folder that an earlier run wrote its authorities to. */
  readonly outDir: string;

  readonly role: CertificateRoleName;

  /**
   * Whose certificate it is, e.g. a node's name: names the files, and stands in the certificate.
   *
   * @defaultValue the name that a full run uses, which renews that certificate
   */
  readonly name?: string | undefined;

  /** Host names and IP addresses beside the role's own. @defaultValue none */
  readonly names?: readonly string[] | undefined;

  /** Lifetime in days; no longer than the authority's. @defaultValue 365 */
  readonly leafDays?: number | undefined;

  /** Replace what is there. */
  readonly overwrite?: boolean | undefined;

  readonly clock?: Pick<Clock, "wallTimeMs"> | undefined;
}

/** Names that are files of every domain. Above all, nothing may replace the authority. */
const RESERVED_NAMES = ["ca", "server", "client"];

/** A host name as Kubernetes wants it, which makes a safe file name too. */
const NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

/**
 * Make one more certificate, or renew one, under an authority that is there already.
 *
 * @throws {Error} if that authority cannot be used, a name is not one, or a file is in the way and
 * `overwrite` is not set.
 */
export async function addCertificate(options: AddCertificateOptions): Promise<WrittenCertificate> {
  const { outDir, role, name, names = [], overwrite = false } = options;
  const clock = options.clock ?? systemClock;
  if (name !== undefined) checkFileName(name);
  checkNames(names);

  const { domain, usage } = certificateRole(role);
  const paths = certificatePaths(outDir, domain, name ?? usage);
  if (!overwrite) refuseExisting([paths.certPath, paths.keyPath]);

  const authority = loadAuthority(outDir, domain, clock);
  const leafDays = options.leafDays ?? DEFAULT_LEAF_DAYS;
  const validity = validityFrom(clock.wallTimeMs(), leafDays, authority.notAfter);
  const keyPair = await generateRsaKeyPair();
  const draft = draftLeaf(role, paths, authority.issued, { name, names, validity }, keyPair);
  writeDrafts([draft], { overwrite });
  return draft.written;
}

function checkFileName(name: string): void {
  if (!NAME.test(name)) {
    throw new Error(`"${name}" is no name: use lower-case letters, digits, "-" and "."`);
  }
  if (RESERVED_NAMES.includes(name)) throw new Error(`the name "${name}" is taken`);
}

interface Authority {
  readonly issued: IssuedCertificate;
  readonly notAfter: Date;
}

function loadAuthority(
  outDir: string,
  domain: TrustDomain,
  clock: Pick<Clock, "wallTimeMs">,
): Authority {
  const { certPath, keyPath } = certificatePaths(outDir, domain, "ca");
  if (!existsSync(certPath)) {
    throw new Error(`there is no ${domain} CA at ${certPath}; "reachback certs" makes one`);
  }
  const { certPem, keyPem, leaf } = loadKeyPair(certPath, keyPath, clock);
  const certificate = new X509Certificate(certPem);
  if (!certificate.ca) throw new Error(`${certPath} is not the certificate of an authority`);
  if (certificate.publicKey.asymmetricKeyType !== "rsa") {
    throw new Error(`${keyPath} is not an RSA key, and others cannot be signed with`);
  }
  return { issued: { certPem, keyPem }, notAfter: new Date(leaf.notAfterAtMs) };
}
