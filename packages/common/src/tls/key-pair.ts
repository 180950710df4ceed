import { createPrivateKey } from "node:crypto";
import type { KeyObject, X509Certificate } from "node:crypto";
import type { Clock } from "../clock.ts";
import { bundleProblemText, certificateBundle, withRemark } from "./certificate-bundle.ts";
import type { BundledCertificate } from "./certificate-bundle.ts";
import { validityProblem } from "./certificate-facts.ts";
import type { CertificateFacts } from "./certificate-facts.ts";
import { pemBlocksFromText } from "./pem-block.ts";
import type { BrokenPemBlock, PemBlock, WholePemBlock } from "./pem-block.ts";
import { readMaterial } from "./read-material.ts";
import { TlsMaterialError } from "./tls-material-error.ts";

/** A certificate chain and the private key of its first certificate. */
export interface KeyPair {
  readonly certPath: string;
  readonly keyPath: string;
  /** The leaf, then what else the file holds: intermediate authorities. */
  readonly certPem: string;
  /** Never log it. */
  readonly keyPem: string;
  readonly leaf: CertificateFacts;
}

const NO_PEM_IN_CERT = "tls: failed to find any PEM data in certificate input";
const NO_PEM_IN_KEY = "tls: failed to find any PEM data in key input";

/**
 * Read a certificate chain and its private key, leaf first, as every TLS server and client wants it.
 * Text and other blocks around them are skipped.
 *
 * @throws {TlsMaterialError} if a file cannot be read or is damaged, if the key is not the leaf's, or
 * if the leaf is not valid at the clock's time.
 */
export function loadKeyPair(
  certPath: string,
  keyPath: string,
  clock: Pick<Clock, "wallTimeMs">,
): KeyPair {
  try {
    const certText = readMaterial(certPath);
    const keyText = readMaterial(keyPath);
    const chain = chainFrom(pemBlocksFromText(certText));
    const keyBlock = keyBlockOf(pemBlocksFromText(keyText));
    const { certificate, facts } = chain[0];
    const key = privateKeyFrom(keyBlock);
    requireMatch(certificate, key);
    const problem = validityProblem(facts, clock.wallTimeMs());
    if (problem !== undefined) throw new Error(problem);
    return {
      certPath,
      keyPath,
      certPem: chain.map(({ pem }) => pem).join(""),
      keyPem: key.export({ format: "pem", type: "pkcs8" }).toString(),
      leaf: facts,
    };
  } catch (error) {
    const reason = (error as Error).message;
    const message = `failed to load X509 key pair ${certPath} and ${keyPath}: ${reason}`;
    throw new TlsMaterialError(message, { cause: error });
  }
}

function chainFrom(
  blocks: readonly PemBlock[],
): readonly [BundledCertificate, ...BundledCertificate[]] {
  const { certificates, problem } = certificateBundle(blocks);
  if (problem !== undefined) throw new Error(bundleProblemText(problem, blocks, NO_PEM_IN_CERT));
  const [leaf, ...rest] = certificates;
  if (leaf === undefined) throw new Error(missingCertificateText(blocks));
  return [leaf, ...rest];
}

function missingCertificateText(blocks: readonly PemBlock[]): string {
  const types = blocks.map(({ type }) => type);
  const [first] = types;
  if (first === undefined) return NO_PEM_IN_CERT;
  if (types.length === 1 && first.endsWith("PRIVATE KEY")) {
    return "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched";
  }
  return `tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following types: [${types.join(" ")}]`;
}

function isPrivateKey({ type }: PemBlock): boolean {
  return type === "PRIVATE KEY" || type.endsWith(" PRIVATE KEY");
}

function keyBlockOf(blocks: readonly PemBlock[]): WholePemBlock {
  const block = blocks.find(isPrivateKey);
  if (block === undefined) throw new Error(missingKeyText(blocks));
  if (!block.whole) throw new Error(brokenKeyText(block));
  return block;
}

function missingKeyText(blocks: readonly PemBlock[]): string {
  const types = blocks.map(({ type }) => type);
  const [first] = types;
  if (first === undefined) return NO_PEM_IN_KEY;
  if (types.length === 1 && first === "CERTIFICATE") {
    return "tls: found a certificate rather than a key in the PEM for the private key";
  }
  return `tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the following types: [${types.join(" ")}]`;
}

function brokenKeyText({ line, type, problem }: BrokenPemBlock): string {
  const remark = `line ${line}: the ${type} block ${problem}`;
  return withRemark(NO_PEM_IN_KEY, remark);
}

/** In the order in which Go tries them, whatever the block is called. */
const KEY_FORMATS = ["pkcs1", "pkcs8", "sec1"] as const;

function privateKeyFrom(block: WholePemBlock): KeyObject {
  for (const type of KEY_FORMATS) {
    try {
      return createPrivateKey({ key: block.bytes, format: "der", type });
    } catch {
      // The next format, or the error below.
    }
  }
  const isEncrypted = block.hasHeaders || block.type === "ENCRYPTED PRIVATE KEY";
  const reason = isEncrypted ? "is encrypted: store it without a passphrase" : "holds no known key";
  const remark = `line ${block.line}: the ${block.type} block ${reason}`;
  throw new Error(withRemark("tls: failed to parse private key", remark));
}

function requireMatch(certificate: X509Certificate, key: KeyObject): void {
  if (certificate.publicKey.asymmetricKeyType !== key.asymmetricKeyType) {
    throw new Error("tls: private key type does not match public key type");
  }
  if (!certificate.checkPrivateKey(key)) {
    throw new Error("tls: private key does not match public key");
  }
}
