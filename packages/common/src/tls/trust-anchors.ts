import { X509Certificate } from "node:crypto";
import type { CaPool } from "./ca-pool.ts";
import { pemFromBytes } from "./pem-block.ts";

/** DER of what OpenSSL keeps beside a certificate: trusted for the OID anyExtendedKeyUsage. */
const TRUSTED_FOR_ANYTHING = Buffer.from("300830060604551d2500", "hex");

/**
 * The pool for the `ca` option of Node's TLS functions.
 *
 * Go trusts each certificate in the file by itself. OpenSSL trusts one that another CA signed only
 * if the root is there too, unless it is marked as trusted, which is what this does. Node's own
 * switch for it, `allowPartialTrustChain`, is ignored by its servers.
 */
export function trustAnchors({ pems }: CaPool): string[] {
  return pems.map((pem) => {
    const { raw } = new X509Certificate(pem);
    return pemFromBytes("TRUSTED CERTIFICATE", Buffer.concat([raw, TRUSTED_FOR_ANYTHING]));
  });
}
