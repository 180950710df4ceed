import { createHash } from "node:crypto";

// PROTOCOL.md, "Turning away".

/** 64 bits: servers whose names were the same would not both be met. */
const DIGEST_CHARACTERS = 16;

/**
 * The ALPN protocol that nobody speaks and by which an agent says that it does not want the server of
 * this id, whoever it may meet. It goes over the wire in the clear, so the id does not.
 */
export function exceptServerAlpn(serverId: string): string {
  const digest = createHash("sha256").update(serverId).digest("hex");
  return `reachback-except-${digest.slice(0, DIGEST_CHARACTERS)}`;
}

/**
 * Whether a client's TLS handshake failed because the server turned it away. To a client that has named
 * servers: any other server speaks `h2`, or would say the same to one that has not.
 */
export function wasTurnedAway(error: unknown): boolean {
  const { code } = Object(error) as { readonly code?: unknown };
  return code === "ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL";
}
