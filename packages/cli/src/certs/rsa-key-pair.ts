import { generateKeyPair } from "node:crypto";
import { promisify } from "node:util";

/** A key pair as PEM: SPKI and unencrypted PKCS#8. */
export interface RsaKeyPair {
  readonly publicKeyPem: string;
  readonly privateKeyPem: string;
}

const generateNativeKeyPair = promisify(generateKeyPair);

/** About 112 bits of security, good to 2030 by NIST SP 800-57; every TLS stack takes it. */
const MODULUS_BITS = 2048;

/**
 * A new RSA-2048 key pair, made by OpenSSL on the thread pool.
 *
 * RSA because node-forge signs nothing else. Twice the bits would make ten keys take ten seconds
 * and each handshake several times as long.
 */
export async function generateRsaKeyPair(): Promise<RsaKeyPair> {
  const { publicKey, privateKey } = await generateNativeKeyPair("rsa", {
    modulusLength: MODULUS_BITS,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
  return { publicKeyPem: publicKey, privateKeyPem: privateKey };
}
