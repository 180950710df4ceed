/** Suites of TLS 1.3. Go always offers all three, whatever list it is given, and so do we. */
const TLS13_SUITES = [
  "TLS_AES_128_GCM_SHA256",
  "TLS_AES_256_GCM_SHA384",
  "TLS_CHACHA20_POLY1305_SHA256",
] as const;

/** OpenSSL's name for each TLS 1.2 suite that HTTP/2 allows (RFC 9113, appendix A), by Go's. */
const TLS12_AEAD_SUITES: readonly (readonly [goName: string, opensslName: string])[] = [
  ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"],
  ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"],
  ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"],
  ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"],
  ["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"],
  ["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"],
];

/** Used only when they are asked for by name. */
const TLS12_CBC_SUITES: readonly (readonly [goName: string, opensslName: string])[] = [
  ["TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"],
  ["TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"],
  ["TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"],
  ["TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"],
];

const OPENSSL_NAMES: ReadonlyMap<string, string> = new Map([
  ...TLS13_SUITES.map((name) => [name, name] as const),
  ...TLS12_AEAD_SUITES,
  ...TLS12_CBC_SUITES,
]);

/** Whether `goName` is what Go calls one of its secure cipher suites. */
export function isSupportedCipherSuite(goName: string): boolean {
  return OPENSSL_NAMES.has(goName);
}

/**
 * Cipher suites for Node's `ciphers` option, in order of preference.
 *
 * The suites of TLS 1.3 are always in it, because Node takes their absence for a wish to have no TLS
 * 1.3 at all. A list of nothing but those leaves TLS 1.2 without a suite, as in Go.
 *
 * @param goNames - Go's names; none for the default, which is Go's list without the CBC suites that
 * HTTP/2 forbids.
 * @throws {RangeError} if a name is not supported: check it first, with
 * {@link isSupportedCipherSuite}.
 */
export function opensslCiphers(goNames: readonly string[] = []): string {
  const chosen = goNames.length > 0 ? goNames : TLS12_AEAD_SUITES.map(([goName]) => goName);
  return [...new Set([...TLS13_SUITES, ...chosen.map(opensslName)])].join(":");
}

function opensslName(goName: string): string {
  const name = OPENSSL_NAMES.get(goName);
  if (name === undefined) throw new RangeError(`unknown cipher suite ${goName}`);
  return name;
}
