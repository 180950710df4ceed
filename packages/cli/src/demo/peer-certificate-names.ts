import type { TLSSocket } from "node:tls";

/** Common names of a certificate and of its CA. */
export interface CertificateNames {
  readonly subject: string;
  readonly issuer: string;
}

/** Whom the other end of `socket` says it is, or `undefined` if it showed no certificate. */
export function peerCertificateNames(socket: TLSSocket): CertificateNames | undefined {
  // Without one there is an empty object, whatever its type says.
  const { subject, issuer } = socket.getPeerCertificate() as Partial<
    ReturnType<TLSSocket["getPeerCertificate"]>
  >;
  return subject === undefined
    ? undefined
    : { subject: String(subject.CN), issuer: String(issuer?.CN) };
}
