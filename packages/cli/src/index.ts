export { addCertificate } from "./certs/add-certificate.ts";
export type { AddCertificateOptions } from "./certs/add-certificate.ts";
export type { CertificateRoleName, TrustDomain } from "./certs/certificate-roles.ts";
export type { CertificatePaths, WrittenCertificate } from "./certs/draft-certificate.ts";
export { generateCertificates } from "./certs/generate-certificates.ts";
export type { CertificateSet, GenerateCertificatesOptions } from "./certs/generate-certificates.ts";
export { createAuthority, issueCertificate } from "./certs/issue-certificate.ts";
export type {
  CertificateUsage,
  IssuedCertificate,
  LeafRequest,
  Validity,
} from "./certs/issue-certificate.ts";
export { generateRsaKeyPair } from "./certs/rsa-key-pair.ts";
export type { RsaKeyPair } from "./certs/rsa-key-pair.ts";
