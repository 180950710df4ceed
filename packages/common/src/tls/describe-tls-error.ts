/** Which end the other one is. */
export type TlsPeer = "server" | "client";

/** The part of a `TLSSocket` that knows why Node refused a client. */
export interface RefusingSocket {
  readonly authorizationError?: unknown;
}

/**
 * One sentence for the log about a TLS handshake that failed, with Node's or OpenSSL's code behind
 * it to search for.
 *
 * @param error - From `error` of a client's socket, or `tlsClientError` of a server.
 * @param peer - The other end: `"server"` where we connected, `"client"` where we listen.
 * @param socket - The second argument of `tlsClientError`. Node drops a client whose certificate it
 * does not accept as if the client had hung up, and only the socket knows better.
 */
export function describeTlsError(error: unknown, peer: TlsPeer, socket?: RefusingSocket): string {
  const { code, reason, host, subjectAltName, message } = partsOf(error, socket);
  const sentence =
    code === "ERR_TLS_CERT_ALTNAME_INVALID"
      ? wrongNameSentence(host, subjectAltName)
      : (sentenceFor(code, peer) ?? reason ?? message);
  return code === "" ? sentence : `${sentence} (${code})`;
}

/**
 * What is wrong with the protocol that a finished handshake agreed on, or `undefined`.
 *
 * @param negotiated - `alpnProtocol` of the socket; false if the peer knows no ALPN.
 * @param wanted - Those with which the connection can be used.
 */
export function alpnProblem(
  negotiated: string | false | null,
  wanted: readonly string[],
  peer: TlsPeer,
): string | undefined {
  if (typeof negotiated === "string" && wanted.includes(negotiated)) return undefined;
  const got = typeof negotiated === "string" ? `"${negotiated}"` : "no protocol";
  return `the ${peer} agreed on ${got} where ${wanted.join(" or ")} is needed (ALPN)`;
}

interface ErrorParts {
  readonly code: string;
  readonly reason: string | undefined;
  readonly host: string | undefined;
  readonly subjectAltName: string | undefined;
  readonly message: string;
}

function partsOf(error: unknown, socket: RefusingSocket | undefined): ErrorParts {
  const { code, reason, host, cert } = Object(error) as Record<string, unknown>;
  const refusal = socket?.authorizationError;
  const names = (Object(cert) as Record<string, unknown>)["subjectaltname"];
  return {
    code: textOr("", typeof refusal === "string" ? refusal : code),
    reason: textOr(undefined, reason),
    host: textOr(undefined, host),
    subjectAltName: textOr(undefined, names),
    message: (error instanceof Error ? error.message : String(error)).trim(),
  };
}

function textOr<Fallback>(fallback: Fallback, value: unknown): string | Fallback {
  return typeof value === "string" ? value : fallback;
}

function wrongNameSentence(host = "another name", subjectAltName = ""): string {
  const names = subjectAltName === "" ? "no name at all" : subjectAltName;
  return `wrong name: expected ${host}, the server's certificate is for ${names}`;
}

function sentenceFor(code: string, peer: TlsPeer): string | undefined {
  const alert = /_ALERT_([A-Z_]+)$/.exec(code)?.[1];
  return alert === undefined ? CAUSES[code]?.(peer) : alertSentence(alert, peer);
}

/** What we found wrong with the peer. */
const CAUSES: Readonly<Record<string, (peer: TlsPeer) => string>> = {
  CERT_HAS_EXPIRED: (peer) => `the ${peer}'s certificate, or its authority's, has expired`,
  CERT_NOT_YET_VALID: (peer) =>
    `the ${peer}'s certificate, or its authority's, is not yet valid; is a clock wrong?`,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: wrongAuthority,
  UNABLE_TO_GET_ISSUER_CERT: wrongAuthority,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: wrongAuthority,
  SELF_SIGNED_CERT_IN_CHAIN: wrongAuthority,
  DEPTH_ZERO_SELF_SIGNED_CERT: wrongAuthority,
  CERT_SIGNATURE_FAILURE: wrongAuthority,
  CERT_UNTRUSTED: wrongAuthority,
  INVALID_PURPOSE: (peer) =>
    `the ${peer}'s certificate is not meant for a ${peer} (extended key usage)`,
  ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE: (peer) => `the ${peer} presented no certificate`,
  ERR_SSL_NO_APPLICATION_PROTOCOL: (peer) =>
    `the ${peer} offers none of the protocols spoken here (ALPN)`,
  ERR_SSL_UNSUPPORTED_PROTOCOL: (peer) => `the ${peer} offers no TLS version that is accepted here`,
  ERR_SSL_NO_SHARED_CIPHER: (peer) => `the ${peer} offers no cipher suite that is accepted here`,
  ERR_SSL_HTTP_REQUEST: (peer) => `the ${peer} speaks plain HTTP, not TLS`,
  ERR_SSL_WRONG_VERSION_NUMBER: (peer) => `the ${peer} does not speak TLS`,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: (peer) => `the ${peer} does not speak TLS`,
  ERR_TLS_HANDSHAKE_TIMEOUT: (peer) => `the ${peer} did not finish its TLS handshake in time`,
  ECONNRESET: describeTlsHangUp,
  EPIPE: describeTlsHangUp,
};

/** The same for a peer that ended the connection, with which Node has no error to report. */
export function describeTlsHangUp(peer: TlsPeer): string {
  // With TLS 1.3 a server looks at the client's certificate when the client's handshake is over.
  const when =
    peer === "server" ? "during the TLS handshake or right after it" : "during the TLS handshake";
  return `the ${peer} hung up ${when}; it may not accept our certificate`;
}

function wrongAuthority(peer: TlsPeer): string {
  return `wrong CA: the ${peer}'s certificate is not signed by an authority in our CA file`;
}

/** What the peer found wrong with us, from the name of the TLS alert it sent. */
function alertSentence(alert: string, peer: TlsPeer): string {
  switch (alert) {
    case "CERTIFICATE_REQUIRED":
      return `the ${peer} wants a certificate and was given none`;
    case "CERTIFICATE_EXPIRED":
      return `the ${peer} says that our certificate has expired`;
    case "UNKNOWN_CA":
      return `the ${peer} does not know the authority that signed our certificate`;
    case "PROTOCOL_VERSION":
      return `the ${peer} accepts no TLS version that we offer`;
    case "NO_APPLICATION_PROTOCOL":
      return `the ${peer} speaks none of the protocols that we offer (ALPN)`;
    case "HANDSHAKE_FAILURE":
      return `the ${peer} refused the handshake: no common cipher suite, or it wants a certificate`;
    default:
      return `the ${peer} refused the handshake: ${alert.toLowerCase().replaceAll("_", " ")}`;
  }
}
