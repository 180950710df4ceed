import assert from "node:assert/strict";
import { X509Certificate, createPrivateKey, generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { createTestPki } from "../../../../test/support/pki.ts";
import { systemClock } from "../../src/clock.ts";
import { loadKeyPair } from "../../src/tls/key-pair.ts";
import { TlsMaterialError } from "../../src/tls/tls-material-error.ts";

const pki = createTestPki();
const dir = mkdtempSync(join(tmpdir(), "reachback-key-pair-"));
after(() => {
  rmSync(dir, { recursive: true });
});

const DAY_MS = 24 * 60 * 60 * 1000;
const certPath = join(dir, "leaf.crt");
const keyPath = join(dir, "leaf.key");
const { agentClient: leaf, agentCa } = pki;
const leafKey = createPrivateKey(leaf.key);

function load(certText: string, keyText: string) {
  writeFileSync(certPath, certText);
  writeFileSync(keyPath, keyText);
  return loadKeyPair(certPath, keyPath, systemClock);
}

function rejectionOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof TlsMaterialError);
    return error.message;
  }
  return assert.fail("the pair was accepted");
}

describe("loadKeyPair accepts", () => {
  it("a certificate and its key, and says what they are", () => {
    const pair = load(leaf.cert, leaf.key);
    assert.equal(pair.certPem, leaf.cert);
    assert.equal(pair.keyPem, leaf.key);
    assert.equal(pair.certPath, certPath);
    assert.equal(pair.keyPath, keyPath);
    const certificate = new X509Certificate(leaf.cert);
    assert.equal(pair.leaf.subject, "CN=agent-client");
    assert.equal(pair.leaf.issuer, "CN=agent CA");
    assert.equal(pair.leaf.serial, certificate.serialNumber);
    assert.equal(pair.leaf.notAfterAtMs, Date.parse(certificate.validTo));
    assert.equal(Date.parse(pair.leaf.notAfter), pair.leaf.notAfterAtMs);
    assert.equal(Date.parse(pair.leaf.notBefore), pair.leaf.notBeforeAtMs);
  });

  it("text and other blocks around both, and a chain behind the leaf", () => {
    const cert = `who: me\n${leaf.cert}\n${agentCa.cert}the end\n`;
    const parameters =
      "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    const pair = load(cert, `a key\n${parameters}${leaf.key}`);
    assert.equal(pair.certPem, leaf.cert + agentCa.cert);
    assert.equal(pair.keyPem, leaf.key);
  });

  it("certificate and key in one file", () => {
    const both = leaf.cert + leaf.key;
    assert.equal(load(both, both).certPem, leaf.cert);
  });

  it("a PKCS#1 key, under either name", () => {
    const pkcs1 = leafKey.export({ format: "pem", type: "pkcs1" }).toString();
    assert.equal(load(leaf.cert, pkcs1).keyPem, leaf.key);
    assert.equal(load(leaf.cert, pkcs1.replaceAll(" RSA ", " ")).keyPem, leaf.key);
  });
});

describe("loadKeyPair refuses, in the words of Go's tls.LoadX509KeyPair,", () => {
  it("empty paths", () => {
    assert.equal(
      rejectionOf(() => loadKeyPair("", "", systemClock)),
      "failed to load X509 key pair  and : open : no such file or directory",
    );
  });

  it("a certificate or a key that is not there", () => {
    assert.equal(
      rejectionOf(() => loadKeyPair("/nope.crt", leaf.keyPath, systemClock)),
      `failed to load X509 key pair /nope.crt and ${leaf.keyPath}: open /nope.crt: no such file or directory`,
    );
    assert.equal(
      rejectionOf(() => loadKeyPair(leaf.certPath, "/nope.key", systemClock)),
      `failed to load X509 key pair ${leaf.certPath} and /nope.key: open /nope.key: no such file or directory`,
    );
  });

  const ecKey = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
  const der = new X509Certificate(leaf.cert).raw;
  const cutDer = der.subarray(0, 200).toString("base64");
  const pairs: readonly (readonly [name: string, cert: string, key: string, reason: string])[] = [
    [
      "a key of another certificate",
      leaf.cert,
      agentCa.key,
      "tls: private key does not match public key",
    ],
    [
      "a key of another kind",
      leaf.cert,
      ecKey.export({ format: "pem", type: "pkcs8" }).toString(),
      "tls: private key type does not match public key type",
    ],
    [
      "an EC key in its old form",
      leaf.cert,
      ecKey.export({ format: "pem", type: "sec1" }).toString(),
      "tls: private key type does not match public key type",
    ],
    [
      "the two files exchanged",
      leaf.key,
      leaf.cert,
      "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
    ],
    [
      "a certificate in place of the key",
      leaf.cert,
      leaf.cert,
      "tls: found a certificate rather than a key in the PEM for the private key",
    ],
    [
      "a certificate file without PEM",
      "text",
      leaf.key,
      "tls: failed to find any PEM data in certificate input",
    ],
    ["a key file without PEM", leaf.cert, "", "tls: failed to find any PEM data in key input"],
    [
      "other blocks only, for the certificate",
      `${leaf.key}${leaf.key}`,
      leaf.key,
      'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following types: [PRIVATE KEY PRIVATE KEY]',
    ],
    [
      "other blocks only, for the key",
      leaf.cert,
      `${leaf.cert}${agentCa.cert}`,
      'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the following types: [CERTIFICATE CERTIFICATE]',
    ],
    [
      "a block that holds no certificate",
      "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
      leaf.key,
      "x509: malformed certificate",
    ],
    [
      "a cut certificate",
      `-----BEGIN CERTIFICATE-----\n${cutDer}\n-----END CERTIFICATE-----\n`,
      leaf.key,
      `x509: malformed certificate (line 1: the certificate is cut off after 200 of ${der.length} bytes)`,
    ],
    [
      "a certificate without its END",
      leaf.cert.slice(0, 300),
      leaf.key,
      "tls: failed to find any PEM data in certificate input (line 1: the CERTIFICATE block has no END line)",
    ],
    [
      "an intermediate without its END",
      leaf.cert + agentCa.cert.slice(0, 300),
      leaf.key,
      `line ${leaf.cert.split("\n").length}: the CERTIFICATE block has no END line`,
    ],
    [
      "a key without its END",
      leaf.cert,
      leaf.key.slice(0, 300),
      "tls: failed to find any PEM data in key input (line 1: the PRIVATE KEY block has no END line)",
    ],
    [
      "a key block that holds no key",
      leaf.cert,
      "\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
      "tls: failed to parse private key (line 2: the PRIVATE KEY block holds no known key)",
    ],
    [
      "an encrypted key",
      leaf.cert,
      leafKey
        .export({ format: "pem", type: "pkcs8", cipher: "aes-256-cbc", passphrase: "x" })
        .toString(),
      "tls: failed to parse private key (line 1: the ENCRYPTED PRIVATE KEY block is encrypted: store it without a passphrase)",
    ],
    [
      "an encrypted key in its old form",
      leaf.cert,
      leafKey
        .export({ format: "pem", type: "pkcs1", cipher: "aes-256-cbc", passphrase: "x" })
        .toString(),
      "tls: failed to parse private key (line 1: the RSA PRIVATE KEY block is encrypted: store it without a passphrase)",
    ],
  ];
  for (const [name, cert, key, reason] of pairs) {
    it(name, () => {
      const message = rejectionOf(() => load(cert, key));
      assert.equal(message, `failed to load X509 key pair ${certPath} and ${keyPath}: ${reason}`);
    });
  }

  it("a certificate that has expired, or is not valid yet", () => {
    const start = `failed to load X509 key pair ${leaf.certPath} and ${leaf.keyPath}: x509: certificate has expired or is not yet valid: current time `;
    const nowMs = Date.parse("2031-02-03T04:05:06.700Z");
    const { leaf: facts } = loadKeyPair(leaf.certPath, leaf.keyPath, systemClock);
    assert.equal(
      rejectionOf(() => loadKeyPair(leaf.certPath, leaf.keyPath, { wallTimeMs: () => nowMs })),
      `${start}2031-02-03T04:05:06Z is after ${facts.notAfter}`,
    );
    const early = { wallTimeMs: () => facts.notBeforeAtMs - DAY_MS };
    const message = rejectionOf(() => loadKeyPair(leaf.certPath, leaf.keyPath, early));
    assert.ok(message.startsWith(start) && message.endsWith(` is before ${facts.notBefore}`));
  });

  it("never shows the key", () => {
    const message = rejectionOf(() => load(leaf.cert, agentCa.key));
    assert.ok(!message.includes(agentCa.key.slice(40, 60)));
  });
});
