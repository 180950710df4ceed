import { randomBytes } from "node:crypto";
import forge from "node-forge";
import { alternativeNameFromText } from "./alternative-name.ts";
import type { RsaKeyPair } from "./rsa-key-pair.ts";

/** When a certificate may be used. */
export interface Validity {
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** A certificate and its key, both PEM. */
export interface IssuedCertificate {
  readonly certPem: string;
  readonly keyPem: string;
}

/** What a leaf certificate proves: `server` to those who connect, `client` to those it connects to. */
export type CertificateUsage = "server" | "client";

export interface LeafRequest {
  readonly commonName: string;
  readonly organization?: string | undefined;
  /** IP addresses and DNS names. */
  readonly names: readonly string[];
  readonly usages: readonly CertificateUsage[];
  /** May be in the past or the future: tests need certificates that nobody should accept. */
  readonly validity: Validity;
}

/**
 * A self-signed certificate authority that signs leaves and no further authorities.
 *
 * @param keyPair - The authority's own key.
 */
export function createAuthority(
  commonName: string,
  validity: Validity,
  keyPair: RsaKeyPair,
): IssuedCertificate {
  const subject = subjectAttributes(commonName, undefined);
  const certificate = startCertificate(subject, validity, keyPair);
  certificate.setIssuer(subject);
  certificate.setExtensions([
    { name: "basicConstraints", critical: true, cA: true, pathLenConstraint: 0 },
    { name: "keyUsage", critical: true, keyCertSign: true, cRLSign: true },
    { name: "subjectKeyIdentifier" },
  ]);
  return sign(certificate, keyPair.privateKeyPem, keyPair);
}

/**
 * A leaf certificate for `keyPair`, signed by `authority`.
 *
 * @throws {Error} if `authority` is not an RSA authority, or a name is neither an IP address nor a
 * DNS name.
 */
export function issueCertificate(
  authority: IssuedCertificate,
  request: LeafRequest,
  keyPair: RsaKeyPair,
): IssuedCertificate {
  const issuer = forge.pki.certificateFromPem(authority.certPem);
  const certificate = startCertificate(
    subjectAttributes(request.commonName, request.organization),
    request.validity,
    keyPair,
  );
  certificate.setIssuer(issuer.subject.attributes.map(withDecodedText));
  certificate.setExtensions([
    { name: "basicConstraints", critical: true, cA: false },
    { name: "keyUsage", critical: true, digitalSignature: true, keyEncipherment: true },
    {
      name: "extKeyUsage",
      serverAuth: request.usages.includes("server"),
      clientAuth: request.usages.includes("client"),
    },
    { name: "subjectKeyIdentifier" },
    { name: "authorityKeyIdentifier", keyIdentifier: keyIdentifierOf(issuer) },
    ...subjectAlternativeName(request.names),
  ]);
  return sign(certificate, authority.keyPem, keyPair);
}

function startCertificate(
  subject: forge.pki.CertificateField[],
  validity: Validity,
  keyPair: RsaKeyPair,
): forge.pki.Certificate {
  const certificate = forge.pki.createCertificate();
  certificate.publicKey = forge.pki.publicKeyFromPem(keyPair.publicKeyPem);
  certificate.serialNumber = randomSerial();
  certificate.validity.notBefore = validity.notBefore;
  certificate.validity.notAfter = validity.notAfter;
  certificate.setSubject(subject);
  return certificate;
}

function sign(
  certificate: forge.pki.Certificate,
  signingKeyPem: string,
  keyPair: RsaKeyPair,
): IssuedCertificate {
  certificate.sign(forge.pki.privateKeyFromPem(signingKeyPem), forge.md.sha256.create());
  return {
    certPem: forge.pki.certificateToPem(certificate).replaceAll("\r", ""),
    keyPem: keyPair.privateKeyPem,
  };
}

function subjectAttributes(
  commonName: string,
  organization: string | undefined,
): forge.pki.CertificateField[] {
  return [
    ...(organization === undefined ? [] : [{ name: "organizationName", value: organization }]),
    { name: "commonName", value: commonName },
  ];
}

/** node-forge reads UTF-8 text as bytes but encodes it again when it writes. */
function withDecodedText(field: forge.pki.CertificateField): forge.pki.CertificateField {
  // Declared with the wrong one of two enums.
  const tag: number | undefined = field.valueTagClass;
  const utf8Tag: number = forge.asn1.Type.UTF8;
  if (tag !== utf8Tag || typeof field.value !== "string") return field;
  return { ...field, value: forge.util.decodeUtf8(field.value) };
}

function subjectAlternativeName(names: readonly string[]): object[] {
  if (names.length === 0) return [];
  const altNames = names.map((name) => {
    const { kind, value } = alternativeNameFromText(name);
    return kind === "ip" ? { type: 7, ip: value } : { type: 2, value };
  });
  return [{ name: "subjectAltName", altNames }];
}

/** The authority's own identifier where it states one, or the usual hash of its key. */
function keyIdentifierOf(issuer: forge.pki.Certificate): string {
  const extension = issuer.getExtension("subjectKeyIdentifier") as
    { readonly subjectKeyIdentifier?: string } | null | undefined;
  const stated = extension?.subjectKeyIdentifier;
  return stated === undefined
    ? issuer.generateSubjectKeyIdentifier().getBytes()
    : forge.util.hexToBytes(stated);
}

/**
 * A random 128-bit number whose top bits are 01, so that its DER form is positive and takes sixteen
 * bytes: a leading zero byte would be refused by strict parsers.
 */
function randomSerial(): string {
  const bytes = randomBytes(16);
  bytes.writeUInt8((bytes.readUInt8(0) & 0x3f) | 0x40, 0);
  return bytes.toString("hex");
}
