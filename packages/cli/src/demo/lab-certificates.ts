import { join } from "node:path";
import type { Clock } from "@reachback/common";
import { certificateRole } from "../certs/certificate-roles.ts";
import { draftAuthority, draftLeaf, writeDrafts } from "../certs/draft-certificate.ts";
import type { CertificatePaths } from "../certs/draft-certificate.ts";
import { generateCertificates } from "../certs/generate-certificates.ts";
import type { CertificateSet } from "../certs/generate-certificates.ts";
import { generateRsaKeyPair } from "../certs/rsa-key-pair.ts";
import { validityFrom } from "../certs/validity.ts";

/** Certificates last this long here: nothing of the demo is for later. */
const LIFETIME_DAYS = 1;

/** What the right ones have, and what the wrong ones have. */
export interface LabCertificates extends CertificateSet {
  /** In every field as the right ones, but signed by another CA of the same name. */
  readonly foreign: Readonly<Record<"agent" | "kubelet", CertificatePaths>>;
}

/** Make all certificates of the demo, below `folder`. */
export async function makeLabCertificates(
  folder: string,
  clock: Pick<Clock, "wallTimeMs">,
): Promise<LabCertificates> {
  const days = { caDays: LIFETIME_DAYS, leafDays: LIFETIME_DAYS };
  const [right, caKeyPair, keyPair] = await Promise.all([
    generateCertificates({ outDir: folder, clock, ...days }),
    generateRsaKeyPair(),
    generateRsaKeyPair(),
  ]);
  const makeForeign = (roleName: "agent" | "kubelet"): CertificatePaths => {
    const validity = validityFrom(clock.wallTimeMs(), LIFETIME_DAYS);
    const stem = join(folder, "foreign", roleName);
    const { domain } = certificateRole(roleName);
    const ca = draftAuthority(domain, pathsOf(`${stem}-ca`), validity, caKeyPair);
    const details = { names: [], validity };
    const leaf = draftLeaf(roleName, pathsOf(stem), ca.issued, details, keyPair);
    writeDrafts([ca, leaf], { overwrite: false });
    return leaf.written;
  };
  return { ...right, foreign: { agent: makeForeign("agent"), kubelet: makeForeign("kubelet") } };
}

function pathsOf(stem: string): CertificatePaths {
  return { certPath: `${stem}.crt`, keyPath: `${stem}.key` };
}
