import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createSecureContext } from "node:tls";
import { isSupportedCipherSuite, opensslCiphers } from "../../src/tls/cipher-suites.ts";

/** What Go's `tls.CipherSuites()` returns. */
const GO_SUITES = [
  "TLS_AES_128_GCM_SHA256",
  "TLS_AES_256_GCM_SHA384",
  "TLS_CHACHA20_POLY1305_SHA256",
  "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
  "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
  "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
  "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
  "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
  "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
  "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
  "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
  "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
  "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
];

describe("cipher suites", () => {
  it("are known by every name that Go deems secure", () => {
    assert.deepEqual(
      GO_SUITES.filter((name) => !isSupportedCipherSuite(name)),
      [],
    );
  });

  for (const name of [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "tls_aes_128_gcm_sha256",
    "constructor",
    "",
  ]) {
    it(`are not known by the name "${name}"`, () => {
      assert.equal(isSupportedCipherSuite(name), false);
    });
  }

  it("are by default those that gRPC on Go uses", () => {
    assert.equal(
      opensslCiphers(),
      "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:" +
        "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:" +
        "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:" +
        "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305",
    );
    assert.equal(opensslCiphers([]), opensslCiphers());
  });

  it("of TLS 1.3 stay when others are chosen, and are never there twice", () => {
    assert.equal(
      opensslCiphers(["TLS_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"]),
      "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:ECDHE-RSA-AES128-SHA",
    );
  });

  it("are all names that OpenSSL takes", () => {
    for (const name of GO_SUITES) createSecureContext({ ciphers: opensslCiphers([name]) });
  });

  it("cannot be asked for by an unknown name", () => {
    assert.throws(
      () => opensslCiphers(["TLS_NONE"]),
      new RangeError("unknown cipher suite TLS_NONE"),
    );
  });
});
