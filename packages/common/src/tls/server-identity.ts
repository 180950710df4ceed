import { isIP } from "node:net";
import { checkServerIdentity } from "node:tls";
import type { PeerCertificate } from "node:tls";

/**
 * Why `certificate` does not prove that the peer is `serverName`, or `undefined` if it does.
 *
 * As Node, except that a common name proves nothing: Go ignores it, and a certificate that works
 * here must work with an upstream peer as well.
 */
export function serverIdentityProblem(
  serverName: string,
  certificate: PeerCertificate,
): Error | undefined {
  const isNameless = !/(?:^|, )DNS:/.test(certificate.subjectaltname ?? "");
  if (isIP(serverName) === 0 && isNameless) {
    return new ServerIdentityError(serverName, certificate);
  }
  return checkServerIdentity(serverName, certificate);
}

/** As Node's own error of this code, so that the two are handled alike. */
class ServerIdentityError extends Error {
  readonly code = "ERR_TLS_CERT_ALTNAME_INVALID";
  readonly host: string;
  readonly cert: PeerCertificate;

  constructor(host: string, cert: PeerCertificate) {
    super(`Host: ${host}. is not in the cert's altnames, which hold no DNS name`);
    this.host = host;
    this.cert = cert;
  }
}
