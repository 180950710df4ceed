import { systemClock } from "@reachback/common";
import type { Clock } from "@reachback/common";
import { CERTIFICATE_ROLE_NAMES, TRUST_DOMAINS, certificateRole } from "./certificate-roles.ts";
import type { CertificateRoleName, TrustDomain } from "./certificate-roles.ts";
import {
  certificatePaths,
  checkNames,
  draftAuthority,
  draftLeaf,
  writeDrafts,
} from "./draft-certificate.ts";
import type { WrittenCertificate } from "./draft-certificate.ts";
import { generateRsaKeyPair } from "./rsa-key-pair.ts";
import { DEFAULT_CA_DAYS, DEFAULT_LEAF_DAYS, validityFrom } from "./validity.ts";
import { refuseExisting } from "./write-files.ts";

export interface GenerateCertificatesOptions {
  /** Folder for the folders `frontend`, `agent` and `kubelet`; made if it is missing. */
  readonly outDir: string;

  /**
   * Host names and IP addresses for the server's two certificates, beside loopback and the names of
   * the usual Service.
   *
   * @defaultValue none
   */
  readonly serverNames?: readonly string[] | undefined;

  /** The same for the kubelet's certificate, beside loopback. */
  readonly kubeletNames?: readonly string[] | undefined;

  /** Lifetime of the authorities, in days. @defaultValue 3650 */
  readonly caDays?: number | undefined;

  /** Lifetime of all other certificates, in days; none outlives its authority. @defaultValue 365 */
  readonly leafDays?: number | undefined;

  /** Replace what is there. Leaves of the old authorities elsewhere are then of no use. */
  readonly overwrite?: boolean | undefined;

  readonly clock?: Pick<Clock, "wallTimeMs"> | undefined;
}

/** What {@link generateCertificates} wrote. */
export interface CertificateSet {
  readonly authorities: Readonly<Record<TrustDomain, WrittenCertificate>>;
  readonly leaves: Readonly<Record<CertificateRoleName, WrittenCertificate>>;
}

/**
 * Make three authorities and a certificate of every role, and write them to `outDir`: all of them,
 * or none if one is in the way and `overwrite` is not set.
 *
 * @throws {Error} naming the files in the way, or a name that is neither a host nor an IP address.
 */
export async function generateCertificates(
  options: GenerateCertificatesOptions,
): Promise<CertificateSet> {
  const { outDir, serverNames = [], kubeletNames = [], overwrite = false } = options;
  const nowMs = (options.clock ?? systemClock).wallTimeMs();
  const caValidity = validityFrom(nowMs, options.caDays ?? DEFAULT_CA_DAYS);
  const leafDays = options.leafDays ?? DEFAULT_LEAF_DAYS;
  const leafValidity = validityFrom(nowMs, leafDays, caValidity.notAfter);

  checkNames([...serverNames, ...kubeletNames]);
  if (!overwrite) refuseExisting(allPaths(outDir));

  const authorities = await recordOf(TRUST_DOMAINS, async (domain) => {
    const paths = certificatePaths(outDir, domain, "ca");
    return draftAuthority(domain, paths, caValidity, await generateRsaKeyPair());
  });
  const leaves = await recordOf(CERTIFICATE_ROLE_NAMES, async (roleName) => {
    const { domain, usage } = certificateRole(roleName);
    const addedNames = domain === "kubelet" ? kubeletNames : serverNames;
    const details = { names: usage === "server" ? addedNames : [], validity: leafValidity };
    const paths = certificatePaths(outDir, domain, usage);
    const { issued } = authorities[domain];
    return draftLeaf(roleName, paths, issued, details, await generateRsaKeyPair());
  });

  writeDrafts([...Object.values(authorities), ...Object.values(leaves)], { overwrite });
  return {
    authorities: await recordOf(TRUST_DOMAINS, (domain) => authorities[domain].written),
    leaves: await recordOf(CERTIFICATE_ROLE_NAMES, (roleName) => leaves[roleName].written),
  };
}

function allPaths(outDir: string): string[] {
  return TRUST_DOMAINS.flatMap((domain) =>
    ["ca", "server", "client"].flatMap((fileName) => {
      const { certPath, keyPath } = certificatePaths(outDir, domain, fileName);
      return [certPath, keyPath];
    }),
  );
}

/** One entry for each of `keys`; values that take time are made side by side. */
async function recordOf<Key extends string, Value>(
  keys: readonly Key[],
  valueOf: (key: Key) => Value | Promise<Value>,
): Promise<Record<Key, Value>> {
  const entries = keys.map(async (key) => [key, await valueOf(key)] as const);
  return Object.fromEntries(await Promise.all(entries)) as Record<Key, Value>;
}
