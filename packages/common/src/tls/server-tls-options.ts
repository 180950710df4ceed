import { constants } from "node:crypto";
import type { TlsOptions } from "node:tls";
import type { CaPool } from "./ca-pool.ts";
import { opensslCiphers } from "./cipher-suites.ts";
import type { KeyPair } from "./key-pair.ts";
import { trustAnchors } from "./trust-anchors.ts";

/** What a TLS listener is made of. */
export interface ServerTlsSettings {
  /** What the listener presents to those who connect (`--server-cert`, `--cluster-cert`). */
  readonly keyPair: KeyPair;

  /**
   * Who may connect: clients with a certificate signed by one of these authorities
   * (`--server-ca-cert`, `--cluster-ca-cert`). A connection without one never gets past the
   * handshake.
   *
   * `undefined` asks for no client certificate. That is for listeners that authenticate by other
   * means, such as a token, or are told to be insecure; it has no default, so that nobody opens a
   * listener by leaving it out.
   */
  readonly clientCa: CaPool | undefined;

  /**
   * What the listener speaks, best first: `["h2"]` for gRPC, `["http/1.1"]` for HTTP CONNECT. A
   * client that offers only other protocols is refused in the handshake; one that offers none gets
   * through, with `alpnProtocol` false on its socket.
   */
  readonly alpnProtocols: readonly string[];

  /**
   * Oldest protocol version to accept (`--tls-min-version`).
   *
   * @defaultValue `"TLSv1.2"`, as upstream; older ones cannot be had (RFC 8996).
   */
  readonly minVersion?: "TLSv1.2" | "TLSv1.3" | undefined;

  /**
   * Cipher suites of TLS 1.2, as {@link opensslCiphers} gives them (`--cipher-suites`). Those of TLS
   * 1.3 cannot be restricted.
   *
   * @defaultValue what gRPC on Go accepts: ECDHE with AES-GCM or ChaCha20-Poly1305.
   */
  readonly ciphers?: string | undefined;
}

/**
 * Options for `tls.createServer`, `https.createServer` and `http2.createSecureServer`, and for
 * `setSecureContext` of each when certificates change.
 */
export function serverTlsOptions(settings: ServerTlsSettings): TlsOptions {
  const { keyPair, clientCa, alpnProtocols } = settings;
  return {
    cert: keyPair.certPem,
    key: keyPair.keyPem,
    minVersion: settings.minVersion ?? "TLSv1.2",
    ciphers: settings.ciphers ?? opensslCiphers(),
    ALPNProtocols: [...alpnProtocols],
    // A resumed session skips the client's certificate, and so would outlive a change of `ca`. No
    // known peer resumes, nor renegotiates, which Go does not offer.
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
    ...(clientCa === undefined ? { requestCert: false } : clientVerification(clientCa)),
  };
}

function clientVerification(clientCa: CaPool): TlsOptions {
  return { ca: trustAnchors(clientCa), requestCert: true, rejectUnauthorized: true };
}
