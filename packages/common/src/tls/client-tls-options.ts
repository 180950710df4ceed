import { constants } from "node:crypto";
import { isIP } from "node:net";
import type { ConnectionOptions } from "node:tls";
import type { CaPool } from "./ca-pool.ts";
import { opensslCiphers } from "./cipher-suites.ts";
import type { KeyPair } from "./key-pair.ts";
import { serverIdentityProblem } from "./server-identity.ts";
import { trustAnchors } from "./trust-anchors.ts";

/** What a TLS connection to a server is made of. */
export interface ClientTlsSettings {
  /**
   * Who may have signed the server's certificate (`--ca-cert`). Nothing else is trusted: neither the
   * roots that come with Node nor those of the system.
   */
  readonly ca: CaPool;

  /**
   * What to present when the server asks for a certificate (`--agent-cert`); `undefined` where
   * another proof, such as a token, is sent later.
   */
  readonly keyPair: KeyPair | undefined;

  /**
   * Whom the server's certificate must be for: the host name or IP address that is connected to
   * (`--proxy-server-host`). A host name is also sent as SNI; an IP address never is (RFC 6066).
   */
  readonly serverName: string;

  /**
   * Protocols to offer, best first. The caller must look at `alpnProtocol` afterwards: a server that
   * knows no ALPN accepts the connection all the same.
   */
  readonly alpnProtocols: readonly string[];

  /** @defaultValue `"TLSv1.2"`, as upstream's agent. */
  readonly minVersion?: "TLSv1.2" | "TLSv1.3" | undefined;
}

/**
 * Options for `tls.connect`, `https.request` and `http2.connect`.
 *
 * The server's certificate is always verified, `NODE_TLS_REJECT_UNAUTHORIZED` notwithstanding, and
 * against {@link ClientTlsSettings.serverName} whatever `host` or `socket` the caller adds.
 */
export function clientTlsOptions(settings: ClientTlsSettings): ConnectionOptions {
  const { ca, keyPair, alpnProtocols } = settings;
  const serverName = plainName(settings.serverName);
  return {
    ca: trustAnchors(ca),
    rejectUnauthorized: true,
    minVersion: settings.minVersion ?? "TLSv1.2",
    ciphers: opensslCiphers(),
    ALPNProtocols: [...alpnProtocols],
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    checkServerIdentity: (_host, certificate) => serverIdentityProblem(serverName, certificate),
    ...(isIP(serverName) === 0 ? { servername: serverName } : {}),
    ...(keyPair === undefined ? {} : { cert: keyPair.certPem, key: keyPair.keyPem }),
  };
}

/** Without the brackets and the zone of an IPv6 address, and without the dot that ends a full name. */
function plainName(serverName: string): string {
  const withoutBrackets = serverName.replace(/^\[(.*)\]$/, "$1");
  const withoutZone = withoutBrackets.replace(/%.*$/, "");
  return isIP(withoutZone) === 6 ? withoutZone : withoutBrackets.replace(/\.$/, "");
}
